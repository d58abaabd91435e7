"""Notifications about transitions (`gitops.records.transitions`) by webhooks, Slack and commit statuses."""

from gitops.notifications.delivery import Delivery
from gitops.notifications.receivers import (
    DEFAULT_EVENTS,
    GitHubStatusChannel,
    GitLabStatusChannel,
    Receiver,
    Slack,
    Webhook,
    find_template_mistake,
)

__all__ = [
    "DEFAULT_EVENTS",
    "Delivery",
    "GitHubStatusChannel",
    "GitLabStatusChannel",
    "Receiver",
    "Slack",
    "Webhook",
    "find_template_mistake",
]
