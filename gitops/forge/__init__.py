"""Access to forges (GitHub, GitLab, Gitea) through one port: pull requests, comments and commit statuses."""
