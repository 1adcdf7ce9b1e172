"""Build the replica's apt repositories of stand-in packages: `python build.py OUT`.

OUT gets one signed repository a vendor and release (cuda, doca/RELEASE, distribution), each with its key key.asc, and
the mark `digest`. Names, versions and relations are those of the real packages; what is in them are the stand-ins of
tests/replica/commands, and in libcuobjclient the software cuObject. A second run with the same sources does nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
COMMANDS = HERE.parent / "commands"
NATIVE = HERE.parents[2] / "native/cuobject"
KERNEL = platform.release()
VENDORS = ("cuda", "doca", "distribution")
BOOT = HERE.parent / "boot.d"
MISSING: set[str] = set()
"""Commands of packages for which there is no stand-in; said at the end."""


def digest() -> str:
    """Of everything that the packages are made from."""
    sources = [
        *HERE.iterdir(),
        *COMMANDS.glob("*.py"),
        *BOOT.iterdir(),
        HERE.parent / "fake_sysfs.py",
        *NATIVE.glob("*.*"),
        NATIVE / "Makefile",
    ]
    total = hashlib.sha256(KERNEL.encode())
    for path in sorted(path for path in sources if path.is_file()):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def software_cuobject(folder: Path) -> Path:
    """The library that stands in for libcuobjclient, built in `folder`, which is kept for the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    run("make", "--quiet", f"--jobs={os.cpu_count()}", f"--directory={NATIVE}", f"BUILD={folder}")
    return folder / "libcuobjclient.so.1"


def run(*words: str, **options: Any) -> str:
    """Output of a command; its complaint ends the build."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"build.py: {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Package:
    """One version of one package of a data file, laid out in a folder."""

    def __init__(
        self, about: dict[str, Any], full: str, release: str, root: Path, versions: dict[str, str]
    ) -> None:
        self.about, self.full, self.release, self.root = about, full, release, root
        self.versions = versions
        self.upstream = full.rpartition("-")[0] or full
        self.name = self.fill(about["name"])
        self.architecture = about.get("arch", "amd64")
        self.scripts: dict[str, list[str]] = {"postinst": [], "prerm": []}

    def fill(self, text: str) -> str:
        for sign, value in (("@F", self.full), ("@V", self.upstream), ("@K", KERNEL)):
            text = text.replace(sign, value)
        return re.sub(r"@\{([^}]+)\}", lambda match: self.versions[match[1]], text)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.root / self.fill(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.fill(text))
        target.chmod(mode)

    def lay_out(self, library: Path) -> None:
        about = self.about
        for path, text in about.get("files", {}).items():
            self.write(path, text, 0o755 if path in about.get("executable", []) else 0o644)
        for path, target in about.get("links", {}).items():
            link = self.root / self.fill(path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.fill(target))
        for command in about.get("commands", []):
            source = COMMANDS / f"{Path(command).name.replace('-', '_')}.py"
            if source.exists():
                self.write(command, source.read_text(), 0o755)
            else:
                MISSING.add(f"{self.name}: {command}")
        for module in about.get("python", []):
            source = COMMANDS / f"{module}.py"
            if not source.exists():
                source = HERE.parent / f"{module}.py"
            self.write(f"usr/lib/python3/dist-packages/{module}.py", source.read_text())
        for script in sorted(BOOT.glob("*.py")) if about.get("boot") else []:
            self.write(f"usr/lib/kvlab-standins/boot.d/{script.stem}", script.read_text(), 0o755)
        if "carries" in about:
            carried = about.get("carried", {}).get(self.release, self.upstream)
            self.write(f"usr/lib/kvlab-standins/{about['carries']}", carried + "\n")
        if "pinning" in about:
            self.pin()
        if "dkms" in about:
            self.dkms()
        if "library" in about:
            folder = self.root / about["library"]
            folder.mkdir(parents=True)
            shutil.copy(library, folder / "libcuobjclient.so.1")
        for path in self.root.glob("lib/systemd/system/*.service"):
            if about.get("boot"):
                continue
            self.scripts["postinst"].append(
                f"if [ -d /run/systemd/system ]; then systemctl daemon-reload; systemctl enable --quiet {path.name};"
                f" systemctl --no-block restart {path.name} || true; fi"
            )
        if "postinst" in about:
            self.scripts["postinst"].append(about["postinst"])

    def pin(self) -> None:
        """What a package nvidia-driver-pinning-* holds: preferences over everything that has the driver's version."""
        self.write(
            f"etc/apt/preferences.d/{self.name.replace('.', '-')}",
            "Package: *nvidia* libcuda1 cuda-drivers*\n"
            f"Pin: version {self.about['pinning']}\nPin-Priority: 1000\n",
        )
        for field in ("provides", "conflicts", "replaces"):
            self.about = {**self.about, field: ["nvidia-driver-pinning"]}

    def dkms(self) -> None:
        """Sources as DKMS wants them, and the scripts that build them at the installation."""
        name = self.about["dkms"]["name"]
        home = f"usr/src/{name}-{self.upstream}"
        self.write(
            f"{home}/dkms.conf",
            f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{self.upstream}"\nAUTOINSTALL="yes"\n',
        )
        self.write(f"{home}/standin.json", json.dumps({"modules": self.about["dkms"]["modules"]}))
        combo = f"-m {name} -v {self.upstream}"
        self.scripts["postinst"].append(f"dkms add {combo}\ndkms install {combo} -k {KERNEL} --force")
        self.scripts["prerm"].append(f"dkms remove {combo} --all")

    def pack(self, into: Path) -> None:
        fields = {
            "Package": self.name,
            "Version": self.full,
            "Architecture": self.architecture,
            "Maintainer": "kvlab stand-ins <nobody@example.invalid>",
            "Section": "misc",
            "Priority": "optional",
        }
        for field in ("Depends", "Conflicts", "Provides", "Replaces"):
            if values := self.about.get(field.lower()):
                fields[field] = ", ".join(self.fill(value) for value in values)
        fields["Description"] = f"stand-in for {self.name}, simulated"
        self.write("DEBIAN/control", "".join(f"{name}: {value}\n" for name, value in fields.items()))
        for name, lines in self.scripts.items():
            if lines:
                self.write(f"DEBIAN/{name}", "#!/bin/sh\nset -e\n" + "\n".join(lines) + "\n", 0o755)
        if "conffiles" in self.about:
            self.write("DEBIAN/conffiles", "".join(f"{path}\n" for path in self.about["conffiles"]))
        run("dpkg-deb", "-Znone", "--root-owner-group", "--build", str(self.root), str(into))


def repository(vendor: dict[str, Any], release: str, out: Path, library: Path, home: str) -> None:
    """One flat, signed repository in `out`."""
    out.mkdir(parents=True)
    newest = {
        about["name"]: about["versions"][release][-1]
        for about in vendor["packages"]
        if isinstance(about["versions"], dict)
    }
    for about in vendor["packages"]:
        versions = about["versions"]
        for full in versions[release] if isinstance(versions, dict) else versions:
            with tempfile.TemporaryDirectory() as scratch:
                package = Package(about, full, release, Path(scratch), newest)
                package.root.chmod(0o755)
                package.lay_out(library)
                package.pack(out)
    index(vendor, release, out, home)


def index(vendor: dict[str, Any], release: str, out: Path, home: str) -> None:
    """Packages, Release and InRelease; the key lies beside them."""
    stanzas = []
    for path in sorted(out.glob("*.deb")):
        fields = run("dpkg-deb", "--field", str(path)).rstrip("\n")
        size, sha256 = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        stanzas.append(f"{fields}\nFilename: ./{path.name}\nSize: {size}\nSHA256: {sha256}\n")
    packages = "\n".join(stanzas).encode()
    (out / "Packages").write_bytes(packages)
    suite = vendor["suite"].replace("@R", release)
    (out / "Release").write_text(
        f"Origin: {vendor['origin']}\nLabel: {vendor['label']}\n"
        + (f"Suite: {suite}\n" if suite else "")
        + f"Date: {formatdate(usegmt=True)}\nArchitectures: amd64\n"
        f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n"
    )
    gpg = ("gpg", "--batch", "--yes", "--homedir", home)
    run(*gpg, "--clearsign", "--output", str(out / "InRelease"), str(out / "Release"))
    run(*gpg, "--armor", "--output", str(out / "key.asc"), "--export")


def build(out: Path) -> None:
    library = software_cuobject(out / ".cuobject")
    for name in VENDORS:
        shutil.rmtree(out / name, ignore_errors=True)
    for name in VENDORS:
        vendor = yaml.safe_load((HERE / f"{name}.yml").read_text())
        # A key for each vendor, so that a wrong key is as wrong as with the real ones.
        with tempfile.TemporaryDirectory(prefix="kvlab-gpg-") as home:
            gpg = ("gpg", "--batch", "--homedir", home, "--passphrase", "", "--pinentry-mode", "loopback")
            run(*gpg, "--quick-generate-key", f"kvlab stand-in for {name}", "ed25519", "sign", "never")
            for release in vendor.get("releases", [""]):
                repository(vendor, release, out / name / release, library, home)
            run("gpgconf", "--homedir", home, "--kill", "all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path, help="folder of the repositories")
    out = parser.parse_args().out.resolve()
    mark, now = out / "digest", digest()
    if mark.exists() and mark.read_text() == now:
        print("unchanged")
        return
    mark.unlink(missing_ok=True)
    build(out)
    mark.write_text(now)
    print("built" + (f"; without stand-in: {', '.join(sorted(MISSING))}" if MISSING else ""))


if __name__ == "__main__":
    main()
