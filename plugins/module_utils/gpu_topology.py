# SPDX-License-Identifier: Apache-2.0
"""The matrix of `nvidia-smi topo -m`, and the NIC that each GPU should use. Pure, standard library only."""

from __future__ import annotations

import re

# Nearest first, as nvidia-smi's own legend defines them: one PCIe bridge, several, the host bridge, another host
# bridge of the same NUMA node, the interconnect between CPUs.
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")

_ANSI = re.compile(r"\x1b\[[0-9;]*m")  # the header is underlined, also into a pipe
_GPU = re.compile(r"GPU\d+$")
_NIC = re.compile(r"NIC\d+$")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*$")


class TopologyError(Exception):
    """The text is not a whole matrix; the message says what is wrong with it."""


def parse(text):
    """The matrix as {"gpus": [{"gpu", "cpu_affinity", "numa_node"}], "nics": [name], "links": {gpu: {nic: distance}}}.

    NICs go by their RDMA device's name, which newer releases give in a legend and older ones in the header itself.
    Raises TopologyError when the text is cut or has a distance that is not known.
    """
    lines = _ANSI.sub("", text).splitlines()
    at = next((n for n, line in enumerate(lines) if "Affinity" in line), None)
    if at is None:
        raise TopologyError("it has no header line with GPUs and their affinity")
    columns = lines[at].split()
    columns = columns[: columns.index("CPU")] if "CPU" in columns else columns
    rows = {words[0]: words[1:] for words in map(str.split, lines[at + 1 :]) if words and words[0] in columns}
    legend = dict(found.groups() for found in map(_LEGEND.match, lines) if found)
    names = {column: legend.get(column, column) for column in columns if not _GPU.match(column)}
    unnamed = [column for column in names if _NIC.match(column) and column not in legend]
    if unnamed:
        raise TopologyError(f"it has no legend for {', '.join(unnamed)}, so it is cut")
    gpus, links = [], {}
    for gpu in filter(_GPU.match, columns):
        cells = rows.get(gpu, [])
        if len(cells) < len(columns):
            raise TopologyError(
                f"the row of {gpu} has {len(cells)} cells for {len(columns)} columns, so it is cut"
            )
        links[gpu] = {names[column]: cell for column, cell in zip(columns, cells) if column in names}
        strange = sorted(set(links[gpu].values()) - set(DISTANCES))
        if strange:
            raise TopologyError(
                f"{gpu} has the unknown distance {', '.join(strange)}; known are {', '.join(DISTANCES)}"
            )
        gpus.append({"gpu": gpu, **_affinity(cells[len(columns) :])})
    return {"gpus": gpus, "nics": list(names.values()), "links": links}


def _affinity(words):
    """CPUs such as 0-55,112-167 and NUMA node such as 0; None where the column is empty or says N/A."""
    cpus, numa, *_ = [*words, "", ""]
    return {
        "cpu_affinity": cpus if re.fullmatch(r"[\d,-]+", cpus) else None,
        "numa_node": int(numa) if numa.isdigit() else None,
    }


def nearest(links, usable):
    """The usable NICs at the smallest distance from a GPU, in `usable`'s order, and that distance; ([], None) if none.

    `links` maps NIC to distance for one GPU.
    """
    for distance in DISTANCES:
        found = [nic for nic in usable if links.get(nic) == distance]
        if found:
            return found, distance
    return [], None


def assign(links, usable):
    """For each GPU the NIC to use and its distance, {gpu: (nic, distance)}; (None, None) where no NIC is usable.

    Each gets one of its nearest. Ties are spread: GPUs with the fewest to choose from go first, and each takes the NIC
    with the fewest GPUs so far.
    """
    choices = {gpu: nearest(row, usable) for gpu, row in links.items()}
    load = dict.fromkeys(usable, 0)
    taken = {}
    for gpu in sorted(choices, key=lambda gpu: len(choices[gpu][0])):
        candidates, distance = choices[gpu]
        nic = min(candidates, key=lambda nic: load[nic], default=None)
        if nic is not None:
            load[nic] += 1
        taken[gpu] = (nic, distance)
    return {gpu: taken[gpu] for gpu in links}
