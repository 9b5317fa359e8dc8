"""Keeps the parts of Google's discovery documents that the Google Cloud emulator uses; see discovery.sh."""

import json
import sys
import zipfile

METHODS = {
    "compute.v1": [
        "instances.bulkInsert", "instances.list", "instances.aggregatedList", "instances.get", "instances.delete",
        "zoneOperations.get", "zoneOperations.wait", "zoneOperations.list",
        "globalOperations.get", "globalOperations.wait", "globalOperations.aggregatedList",
        "regionOperations.get", "regionOperations.wait",
        "machineTypes.get", "machineTypes.list", "machineTypes.aggregatedList",
        "acceleratorTypes.list", "acceleratorTypes.aggregatedList",
        "images.get", "images.getFromFamily", "regions.get", "regions.list", "zones.list", "zones.get",
        "projects.get", "networks.get", "networks.list", "networks.insert", "networks.delete",
        "subnetworks.get", "subnetworks.list",
        "firewalls.get", "firewalls.list", "firewalls.insert", "firewalls.delete",
        "disks.list", "disks.aggregatedList", "addresses.aggregatedList", "reservations.aggregatedList",
        "regionCommitments.aggregatedList",
    ],
    "pubsub.v1": [
        "projects.topics.create", "projects.topics.get", "projects.topics.delete", "projects.topics.publish",
        "projects.topics.getIamPolicy", "projects.topics.setIamPolicy",
        "projects.subscriptions.create", "projects.subscriptions.get", "projects.subscriptions.delete",
        "projects.subscriptions.modifyPushConfig", "projects.subscriptions.pull",
        "projects.subscriptions.acknowledge", "projects.subscriptions.getIamPolicy",
        "projects.subscriptions.setIamPolicy",
    ],
    "storage.v1": [
        "buckets.get", "buckets.insert", "buckets.getIamPolicy", "buckets.setIamPolicy", "projects.serviceAccount.get",
        "notifications.list", "notifications.insert", "notifications.delete",
    ],
    "tpu.v2": [
        "projects.locations.list",
        "projects.locations.nodes.list", "projects.locations.nodes.get", "projects.locations.nodes.create",
        "projects.locations.nodes.delete",
        "projects.locations.queuedResources.create", "projects.locations.queuedResources.get",
        "projects.locations.queuedResources.list", "projects.locations.queuedResources.delete",
        "projects.locations.operations.get", "projects.locations.acceleratorTypes.list",
    ],
    "dataproc.v1": [
        "projects.regions.clusters.create", "projects.regions.clusters.get", "projects.regions.clusters.delete",
        "projects.regions.clusters.list",
        "projects.regions.jobs.submit", "projects.regions.jobs.get", "projects.regions.jobs.cancel",
        "projects.locations.batches.create", "projects.locations.batches.get", "projects.locations.batches.delete",
        "projects.locations.batches.list",
        "projects.regions.operations.cancel",
    ],
    "logging.v2": ["projects.sinks.get", "projects.sinks.create", "projects.sinks.delete"],
    "cloudbilling.v1": ["services.skus.list"],
    "oauth2.v2": ["userinfo.get"],
    "cloudresourcemanager.v3": [
        "projects.get", "projects.testIamPermissions", "projects.getIamPolicy", "projects.setIamPolicy",
    ],
    "serviceusage.v1": ["services.get", "services.enable", "operations.get"],
    "iam.v1": [
        "projects.serviceAccounts.get", "projects.serviceAccounts.create", "projects.serviceAccounts.delete",
        "projects.serviceAccounts.getIamPolicy", "projects.serviceAccounts.setIamPolicy",
        "projects.serviceAccounts.testIamPermissions",
        "projects.roles.get", "projects.roles.create", "projects.roles.patch", "projects.roles.delete",
        "projects.roles.undelete",
        "projects.locations.workloadIdentityPools.get", "projects.locations.workloadIdentityPools.create",
        "projects.locations.workloadIdentityPools.delete", "projects.locations.workloadIdentityPools.undelete",
        "projects.locations.workloadIdentityPools.providers.get",
        "projects.locations.workloadIdentityPools.providers.create",
    ],
}
DROPPED = {"description", "enumDescriptions", "enumDeprecated", "annotations", "deprecated", "scopes", "id"}


def stripped(node, names=False):
    """Removes documentation. The keys of a properties table are names, not keywords of the format."""
    if isinstance(node, dict):
        return {
            k: stripped(v, k in ("properties", "parameters", "schemas"))
            for k, v in node.items() if names or k not in DROPPED
        }
    if isinstance(node, list):
        return [stripped(v) for v in node]
    return node


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for v in node.values():
            yield from references(v)
    elif isinstance(node, list):
        for v in node:
            yield from references(v)


def method(doc, name):
    *resources, last = name.split(".")
    node = doc
    for r in resources:
        node = node["resources"][r]
    return node["methods"][last]


def main(wheel, out):
    archive = zipfile.ZipFile(wheel)
    for name, methods in METHODS.items():
        doc = json.loads(archive.read(f"googleapiclient/discovery_cache/documents/{name}.json"))
        kept = {k: doc[k] for k in ("name", "version", "revision", "rootUrl", "servicePath")}
        kept["parameters"] = stripped(doc["parameters"], True)
        kept["methods"] = {m: stripped(method(doc, m)) for m in methods}
        schemas, queue = {}, list(references(kept["methods"]))
        while queue:
            ref = queue.pop()
            if ref not in schemas:
                schemas[ref] = stripped(doc["schemas"][ref])
                queue.extend(references(schemas[ref]))
        kept["schemas"] = schemas
        with open(f"{out}/{name}.json", "w", encoding="utf-8") as f:
            json.dump(kept, f, indent=None, separators=(",", ":"), sort_keys=True)
            f.write("\n")


main(*sys.argv[1:])
