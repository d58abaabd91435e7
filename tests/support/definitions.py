"""Definitions and instances that scenarios put into Git."""

from __future__ import annotations

import json
from typing import Any


def web(group: str, *, image_suffix: str = "") -> str:
    """A web application: a Deployment that must be available, a Service and an Ingress behind it."""
    return f"""
    apiVersion: kro.run/v1alpha1
    kind: ResourceGraphDefinition
    metadata: {{name: shops.{group}}}
    spec:
      schema:
        group: {group}
        apiVersion: v1alpha1
        kind: Shop
        spec:
          image: string | default=nginx
          replicas: integer | default=1
          public: boolean | default=false
        status:
          available: ${{deployment.status.availableReplicas}}
      resources:
      - id: deployment
        readyWhen:
        - ${{deployment.spec.replicas == deployment.status.availableReplicas}}
        template:
          apiVersion: apps/v1
          kind: Deployment
          metadata:
            name: ${{schema.metadata.name}}
          spec:
            replicas: ${{schema.spec.replicas}}
            selector:
              matchLabels: {{app: "${{schema.metadata.name}}"}}
            template:
              metadata:
                labels: {{app: "${{schema.metadata.name}}"}}
              spec:
                containers:
                - name: web
                  image: ${{schema.spec.image}}{image_suffix}
                  ports:
                  - containerPort: 80
      - id: service
        template:
          apiVersion: v1
          kind: Service
          metadata:
            name: ${{deployment.metadata.name}}
          spec:
            selector: ${{deployment.spec.selector.matchLabels}}
            ports:
            - port: 80
      - id: ingress
        includeWhen:
        - ${{schema.spec.public}}
        template:
          apiVersion: networking.k8s.io/v1
          kind: Ingress
          metadata:
            name: ${{service.metadata.name}}
          spec:
            defaultBackend:
              service:
                name: ${{service.metadata.name}}
                port:
                  number: 80
    """


def shop(group: str, namespace: str, name: str = "shop", **spec: object) -> str:
    return _instance(group, "Shop", namespace, name, spec)


def chain(group: str, ids: str = "abcd", *, kind: str = "Chain") -> str:
    """ConfigMaps that depend on one another in the order of their letters, each named `INSTANCE-LETTER`."""
    resources = []
    for index, letter in enumerate(ids):
        reads = f"${{{ids[index - 1]}.metadata.name}}" if index else "nothing"
        resources.append(
            {
                "id": letter,
                "template": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"${{schema.metadata.name}}-{letter}"},
                    "data": {"reads": reads, "text": "${schema.spec.text}"},
                },
            }
        )
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"{kind.lower()}s.{group}"},
            "spec": {
                "schema": {"group": group, "apiVersion": "v1", "kind": kind, "spec": {"text": "string | default=one"}},
                "resources": resources,
            },
        }
    )


def link(group: str, namespace: str, name: str = "one", *, kind: str = "Chain", **spec: object) -> str:
    return _instance(group, kind, namespace, name, spec, version="v1")


def config_map(namespace: str, name: str, **data: str) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
    )


def _instance(
    group: str, kind: str, namespace: str, name: str, spec: dict[str, object], version: str = "v1alpha1"
) -> str:
    metadata = {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": spec})


def manifest(api_version: str, kind: str, name: str, namespace: str, **content: Any) -> str:
    """Return the file of an object; it is cluster-scoped if *namespace* is empty."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})
