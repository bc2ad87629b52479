"""`make release VERSION=1.2.3`: a release on this machine, not published (docs/release.md)."""
