#!/usr/bin/env python3
"""Makes types.json: the definitions that the built-in kinds reach, without their descriptions.

    extract.py path/to/kubernetes/api/openapi-spec/swagger.json > types.json
"""

import json
import sys

ROOTS = """
core.v1: Namespace ConfigMap Secret Service ServiceAccount Pod Node Event PersistentVolumeClaim PersistentVolume Endpoints LimitRange ResourceQuota
apps.v1: Deployment StatefulSet DaemonSet ReplicaSet ControllerRevision
batch.v1: Job CronJob
autoscaling.v1: Scale
autoscaling.v2: HorizontalPodAutoscaler
networking.v1: Ingress IngressClass NetworkPolicy
policy.v1: PodDisruptionBudget
coordination.v1: Lease
discovery.v1: EndpointSlice
rbac.v1: Role RoleBinding ClusterRole ClusterRoleBinding
storage.v1: StorageClass
scheduling.v1: PriorityClass
admissionregistration.v1: ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
"""
OTHERS = [
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
]
DROPPED = {"description", "title", "x-kubernetes-unions"}


def bare(node):
    """Drops what only people read."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in sorted(node.items()):
        if key == "properties":
            kept[key] = {name: bare(of) for name, of in sorted(value.items())}
        elif key not in DROPPED:
            kept[key] = bare(value)
    return kept


def references(node):
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix("#/definitions/")
            else:
                yield from references(value)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    wanted = list(OTHERS)
    for line in ROOTS.strip().splitlines():
        group, kinds = line.split(": ")
        wanted += [f"io.k8s.api.{group}.{kind}" for kind in kinds.split()]
    reached = {}
    while wanted:
        name = wanted.pop()
        if name not in reached:
            reached[name] = bare(definitions[name])
            wanted += references(reached[name])
    lines = [f"{json.dumps(name)}: {json.dumps(reached[name], separators=(',', ':'))}" for name in sorted(reached)]
    print("{\n" + ",\n".join(lines) + "\n}")


main()
