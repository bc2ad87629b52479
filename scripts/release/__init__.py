"""`make release VERSION=1.2.3`: a release on this machine; nothing is published (docs/release.md)."""
