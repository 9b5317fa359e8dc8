package skypilot_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot"
)

// Every field of SkyPilot's schemas must be converted, ignored with a warning, or refused, as the documentation says.
// The schemas are those of tasks, job groups, resources, storage and services (sky/utils/schemas.py at commit
// 00052dfe).
func TestEveryFieldOfSkyPilotIsConsidered(t *testing.T) {
	dagtest.Fields(t, "skypilot.md", skyFile, skypilot.Parse)
}

// skyFile returns a task file with one field.
func skyFile(f dagtest.Field) string {
	path := strings.Split(f.Path, ".")
	base := "run: x\n"
	switch {
	case f.Path == "run":
		base = ""
	case path[0] == "file_mounts":
		path = append([]string{"file_mounts", "/d"}, path[1:]...)
	case path[0] == "group":
		return "execution: parallel\n"[:20*min(1, len(strings.TrimPrefix(path[1], "execution")))] + path[1] + ": " + f.Value +
			"\n---\nname: a\nrun: x\n---\nname: b\nrun: x\n"
	}
	value := f.Value
	switch {
	case path[0] == "file_mounts" && path[2] != "source" && path[2] != "name":
		value = nested(path[2:], value)
		return base + "file_mounts: {/d: {source: 's3://b', " + value[1:] + "}\n"
	case f.Path == "workdir.ref":
		return base + "workdir: {url: 'https://x.org/y', ref: v1}\n"
	case strings.HasPrefix(f.Path, "service.replica_policy.") && path[2] != "min_replicas":
		return service + "  ports: 80\n  replica_policy: {min_replicas: 1, " + path[2] + ": " + value + "}\n"
	case strings.HasPrefix(f.Path, "service.readiness_probe.") && path[2] != "path":
		return "run: x\nservice:\n  ports: 80\n  readiness_probe: {path: /, " + path[2] + ": " + value + "}\n"
	case path[0] == "service" && path[1] == "readiness_probe":
		return "run: x\nservice: {ports: 80, " + nested(path[1:], value)[1:] + "\n"
	case path[0] == "service" && path[1] == "ports":
		return service + "  ports: 80\n"
	case path[0] == "service":
		return service + "  ports: 80\n  " + path[1] + ": " + nested(path[2:], value) + "\n"
	}
	return base + path[0] + ": " + nested(path[1:], value) + "\n"
}

const service = "run: x\nservice:\n  readiness_probe: /\n"

// nested returns a YAML value in braces, nested below the fields of a path.
func nested(path []string, value string) string {
	if len(path) == 0 {
		return value
	}
	return "{" + path[0] + ": " + nested(path[1:], value) + "}"
}
