"""Running a lab's programs: supervisor where there is no systemd, profiles, health."""
