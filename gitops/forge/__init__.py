"""Forges behind one port: GitHub, GitLab and Gitea, with their pull requests, comments and commit statuses."""
