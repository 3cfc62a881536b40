"""What has to hold before a release: `make release-check`."""
