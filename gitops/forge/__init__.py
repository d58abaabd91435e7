"""The places where pull requests are: GitHub, GitLab and Gitea, behind one port."""
