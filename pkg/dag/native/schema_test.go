package native_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

var update = flag.Bool("update", false, "write schema.json anew")

type object = map[string]any

const (
	number          = `([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`
	sizeUnitPattern = `(B|[KMGTPE]iB|[KMGTPE]i|[kKMGTPE]B)`
	sizePattern     = `\s*` + number + `\s*` + sizeUnitPattern + `?\s*`
)

// buildSchema writes the schema down field by field. Limits and patterns are the package's own.
func buildSchema() object {
	ref := func(name string) object { return object{"$ref": "#/$defs/" + name} }
	with := func(o object, description string) object {
		o = maps.Clone(o)
		o["description"] = description
		return o
	}
	list := func(of object, most int) object {
		return object{"type": "array", "items": of, "maxItems": most}
	}
	record := func(required []string, properties object) object {
		o := object{"type": "object", "additionalProperties": false, "properties": properties}
		if len(required) > 0 {
			o["required"] = required
		}
		return o
	}
	oneOf := func(words ...any) object { return object{"enum": words} }
	line := object{"type": "string", "minLength": 1, "maxLength": dag.MaxTextBytes, "pattern": `^[^\r\n]*$`}
	script := object{"type": "string", "maxLength": dag.MaxScriptBytes}
	word := object{"type": "string", "minLength": 1, "maxLength": dag.MaxTextBytes, "pattern": `^[^\s*]+$`}
	amount := func(pattern string, most float64) object {
		return object{"oneOf": []any{
			object{"type": "number", "exclusiveMinimum": 0, "maximum": most},
			object{"type": "string", "pattern": pattern},
		}}
	}
	inside := object{
		"type":      "string",
		"minLength": 1,
		"maxLength": dag.MaxTextBytes,
		"pattern":   `^[^/~\r\n][^\r\n]*$`,
	}

	resources := object{
		"cpus": with(
			amount(`^\s*`+number+`(\+|-`+number+`)?\s*$`, dag.MaxCPUs),
			"vCPUs: 8, 8+ for at least 8, or 8-16",
		),
		"memory": with(
			amount(`^`+sizePattern+`(\+|-`+sizePattern+`)?\s*$`, dag.MaxMemoryGiB),
			"GiB: 32, 32+ for at least 32, 32-64, or 512MiB+",
		),
		"accelerators": object{
			"type":        "string",
			"pattern":     `^[^:,{}\s*]+(:\s*` + number + `)?$`,
			"description": "NAME or NAME:COUNT, such as V100:4",
		},
		"cloud":        object{"type": "string", "pattern": `^[^\s*:/]+$`, "description": "aws, gcp, azure, …"},
		"region":       with(word, "a region of the cloud"),
		"zone":         with(word, "a zone of the region"),
		"instanceType": with(word, "a machine type as its cloud calls it"),
		"arch": with(
			oneOf("amd64", "arm64", "x86_64", "x86-64", "aarch64"),
			"the processors' architecture; either if it is left out",
		),
		"market": with(
			oneOf("auto", "spot", "on-demand"),
			"how capacity is bought; auto leaves it to the broker",
		),
		"service": with(oneOf("emr", "dataproc"), "a managed service instead of bare machines"),
		"disk":    with(ref("size"), "the size of the machine's disk"),
		"image":   with(line, "a machine image or container image"),
	}
	labels := func(description string) object {
		return object{
			"type":          "object",
			"maxProperties": dag.MaxLabels,
			"propertyNames": object{"pattern": dag.LabelPattern},
			"additionalProperties": object{
				"type": []string{"string", "number", "boolean"}, "pattern": dag.LabelPattern,
			},
			"description": description,
		}
	}
	alternative := record(nil, resources)
	all := maps.Clone(resources)
	all["anyOf"] = object{
		"type":        "array",
		"items":       alternative,
		"minItems":    1,
		"maxItems":    dag.MaxAlternatives,
		"description": "alternatives, the cheapest first; the fields beside it hold for each that does not have them",
	}
	all["ordered"] = object{
		"type":        "array",
		"items":       alternative,
		"minItems":    1,
		"maxItems":    dag.MaxAlternatives,
		"description": "alternatives in order of preference",
	}
	resourcesSchema := record(nil, all)
	resourcesSchema["not"] = object{"required": []string{"anyOf", "ordered"}}

	env := func(description string) object {
		return object{
			"type":          "object",
			"propertyNames": object{"pattern": dag.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"}},
			"additionalProperties": object{
				"type": []string{"string", "number", "boolean"},
			},
			"description": description,
		}
	}
	secrets := object{
		"description": "variables that are never printed: names, whose values are given when the job is handed in, " +
			"or what they are, or where they are kept (ssm:/path)",
		"oneOf": []any{
			object{"type": "array", "items": object{
				"type": "string", "pattern": dag.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"},
			}},
			object{
				"type":          "object",
				"propertyNames": object{"pattern": dag.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"}},
				"additionalProperties": object{
					"type": []string{"string", "number", "boolean", "null"},
				},
			},
		},
	}
	defaults := object{
		"setup": with(script, "shell script, once on each machine before run"),
		"workdir": object{
			"oneOf": []any{line, record([]string{"url"}, object{
				"url": with(line, "of a git repository"),
				"ref": with(line, "a branch, tag or commit; the default branch if it is left out"),
			})},
			"description": "a directory, a bucket URL or a git repository, staged to each machine",
		},
		"nodes": object{
			"type":        "integer",
			"minimum":     1,
			"maximum":     dag.MaxNodes,
			"description": "machines that run the task together",
		},
		"login": object{
			"type":        "boolean",
			"description": "run the scripts in an interactive bash, after ~/.bashrc",
		},
		"retries": object{
			"type":        "integer",
			"minimum":     0,
			"maximum":     dag.MaxRetries,
			"description": "how often the task's own failure is tried again",
		},
		"checkpoint": with(record([]string{"path"}, object{
			"every": with(ref("duration"), "how often it is saved; on notice only if it is left out"),
			"path":  with(inside, "where the task writes it, below its directory"),
			"size":  ref("size"),
		}), "how the task saves its progress"),
		"time": object{
			"description": "how long the task runs: one time, or times by accelerator and instance type, with default for all others",
			"oneOf": []any{
				ref("duration"),
				object{"type": "object", "minProperties": 1, "additionalProperties": ref("duration")},
			},
		},
		"resources": with(ref("resources"), "what the task runs on"),
		"labels":    labels("what rules of placement of other tasks know the task by"),
		"placement": with(ref("placement"), "where its machines stand to each other, and to those of others"),
	}
	output := record([]string{"name"}, object{
		"name": ref("name"),
		"path": with(inside, "what to keep, below $TRADEWIND_OUTPUT; all of it if it is left out"),
		"uri":  with(line, "where to copy it to as well"),
		"size": ref("size"),
	})
	input := object{"oneOf": []any{
		with(line, "the URI of data that exists"),
		record([]string{"uri"}, object{
			"uri":  with(line, "s3://, gs://, azblob://, file:// or a local path"),
			"path": with(line, "where the task sees it"),
			"size": ref("size"),
			"mount": object{
				"enum": []any{true, false, "write", "cached"},
				"description": "read it where it lies instead of copying it first (true), read and write it there (write), " +
					"or through a cache on the machine's disk (cached)",
			},
			"bucket": with(oneOf("make", "temporary"),
				"make it where there is none, for good or until the job has ended"),
			"source": with(line, "a local path that is uploaded to the URI first"),
		}),
		record([]string{"from"}, object{
			"from":   with(ref("name"), "the task whose output is read; it is waited for"),
			"output": with(ref("name"), "which of them; all if it is left out"),
		}),
	}}
	after := object{"oneOf": []any{
		ref("name"),
		record([]string{"task"}, object{
			"task": ref("name"),
			"outputs": with(
				list(ref("name"), dag.MaxFiles),
				"which outputs are read; none if it is empty, all if it is left out",
			),
			"data": with(ref("size"), "how much is read, if not the size of the outputs"),
		}),
	}}
	framework := oneOf("pytorch", "tensorflow", "mpi", "horovod", "ray", "spark", "dask")
	task := maps.Clone(defaults)
	maps.Copy(task, object{
		"run": with(script, "shell script, on each machine"),
		"gang": object{
			"description": "tasks of the same gang start together or not at all; at most " + fmt.Sprint(dag.MaxGang) +
				", which all wait for the same tasks. A mapping has the roles of a gang of its own",
			"oneOf": []any{ref("name"), ref("gang")},
		},
		"joins":     with(ref("name"), "the gang that it joins while that runs, as more machines of a role"),
		"role":      with(ref("name"), "what the task is in its gang; its name if it is left out"),
		"framework": with(framework, "what the machines of the task, or of its gang, are told of each other in words of"),
		"within": with(oneOf("zone", "region", "anywhere"),
			"how close the machines of its gang are to each other; in one region if it is left out"),
		"on":       with(ref("on"), "what becomes of the gang, or the task, when something happens to one of its machines"),
		"service":  with(ref("service"), "the task is a service: it runs until its job is cancelled, and is replaced when it ends"),
		"recorded": with(ref("duration"), "a measured run time that the task stands in for, instead of run"),
		"env":      env("environment variables, besides the job's"),
		"secrets":  secrets,
		"after":    object{"type": "array", "items": after, "description": "the tasks to wait for"},
		"inputs":   list(input, dag.MaxFiles),
		"outputs":  with(list(output, dag.MaxFiles), "what the task leaves in $TRADEWIND_OUTPUT"),
	})

	root := record([]string{"apiVersion", "tasks"}, object{
		"apiVersion":  object{"const": dag.APIVersion},
		"name":        with(ref("name"), "the job's name; the file's if it is left out"),
		"description": object{"type": "string", "maxLength": dag.MaxTextBytes},
		"objective":   with(oneOf("cost", "makespan"), "what a plan minimises"),
		"deadline":    with(ref("duration"), "from submission to the end of the last task"),
		"budget": object{"description": "the most that may be spent, in USD", "oneOf": []any{
			object{"type": "number", "exclusiveMinimum": 0, "maximum": float64(dag.MaxBudget)},
			object{"type": "string", "pattern": `^\s*\$?` + number + `\s*(USD)?\s*$`},
		}},
		"keepOnFailure": with(ref("duration"), "how long the machines of a task that failed are kept to look at, up to 24h"),
		"queue":         with(ref("name"), "the queue that the job is scheduled by"),
		"namespace":     with(ref("name"), "whose the job is, in the words of the policy's plugin namespace: a user or a team"),
		"priority": object{
			"type":        "integer",
			"minimum":     -dag.MaxPriority,
			"maximum":     dag.MaxPriority,
			"description": "higher first",
		},
		"infeasible": with(oneOf("retry", "fail", "wait"), "what to do when no place is left: retry (the default) waits "+
			"where blocks that end are all that stands in the way, fail does not wait, wait waits for anything"),
		"patience": with(ref("duration"), "how long it waits at most while no place is left; a day, or until the deadline "+
			"where that is later"),
		"regions": object{
			"type":        "array",
			"items":       object{"type": "string", "pattern": `^[^\s*:/]+(:[^\s*/]+)?$`},
			"description": "the only places for every task: CLOUD or CLOUD:REGION",
		},
		"secrets": secrets,
		"labels":  labels("labels of every task"),
		"placement": with(ref("placements"), "where machines of several tasks stand to each other: of those that a rule "+
			"names, or of all"),
		"env":      env("environment variables of every task"),
		"defaults": with(record(nil, defaults), "fields of every task that does not have them itself"),
		"tasks": object{
			"type":                 "object",
			"minProperties":        1,
			"maxProperties":        dag.MaxTasks,
			"propertyNames":        ref("name"),
			"additionalProperties": ref("task"),
			"description":          "the tasks by name",
		},
	})
	role := maps.Clone(task)
	for _, field := range []string{"gang", "joins", "role", "framework", "within", "after", "inputs", "secrets", "nodes",
		"service"} {
		delete(role, field)
	}
	for field, says := range map[string]string{
		"min":          "how many machines it begins with, where it may have more; 1 if it is left out",
		"max":          "how many machines it may have: the others join while it runs, and may leave",
		"minAvailable": "how many of its replicas are enough to begin with; all if it is left out",
	} {
		role[field] = with(maps.Clone(defaults["nodes"].(object)), says)
	}
	role["replicas"] = with(defaults["nodes"].(object), "how many machines it has; 1 if it is left out")
	gang := record([]string{"roles"}, object{
		"minAvailable": with(object{"type": "integer", "minimum": 1, "maximum": dag.MaxGang * dag.MaxNodes},
			"how many machines of all roles are enough to begin with; all that they begin with if it is left out"),
		"within": with(oneOf("zone", "region", "anywhere"),
			"how close its machines are to each other; in one region if it is left out"),
		"roles": object{
			"type":                 "object",
			"minProperties":        1,
			"maxProperties":        dag.MaxGang,
			"propertyNames":        ref("name"),
			"additionalProperties": record(nil, role),
			"description":          "the roles by name; fields of the task beside gang hold for each that does not have them",
		},
		"placement": with(ref("placement"), "where the machines of all roles stand to each other, and to those of others"),
		"on":        with(ref("on"), "what becomes of the gang when something happens to a machine of any role"),
	})
	probed := object{"type": "string", "maxLength": dag.MaxTextBytes, "pattern": `^/[^\s#]*$`}
	service := record(nil, object{
		"replicas": object{"type": "integer", "minimum": 1, "maximum": dag.MaxReplicas,
			"description": "how many of it run; 1 if it is left out"},
		"of": with(ref("name"), "the service that the task alone is a replica of, instead of replicas; its name if it is left out"),
		"port": object{"type": "integer", "minimum": 1, "maximum": 65535,
			"description": "where it listens; without one it is ready as soon as it runs"},
		"readiness": object{
			"description": "how it is found out whether a replica can be used: the path of a GET, or more; a TCP " +
				"connection to the port without a path",
			"oneOf": []any{probed, record(nil, object{
				"path": with(probed, "of an HTTP request"),
				"post": object{"type": "string", "maxLength": dag.MaxTextBytes,
					"description": "the body of a POST; a GET if it is left out"},
				"headers": object{"type": "object", "additionalProperties": object{
					"type": []string{"string", "number", "boolean"}}, "description": "of the request"},
				"initialDelay": with(ref("duration"), "how long it may take until it is ready first; 20m if it is left out"),
				"timeout":      with(ref("duration"), "of one probe; 15s if it is left out"),
			})},
		},
	})
	placement := func(of object) object {
		level := func(says string, words ...any) object { return with(oneOf(words...), says) }
		rule := func(required string, properties object) object {
			maps.Copy(properties, of)
			return record([]string{required}, properties)
		}
		one := object{"oneOf": []any{
			rule("spread", object{
				"spread": level("at most max machines in one", "region", "zone", "rack", "machine"),
				"max": object{"type": "integer", "minimum": 1, "maximum": dag.MaxNodes,
					"description": "how many; 1 if it is left out"},
			}),
			rule("pack", object{"pack": level("all machines in one", "region", "zone", "rack")}),
			rule("apart", object{
				"apart": labels("never where a task with one of these labels runs, of this job or another"),
				"by":    level("how wide that is; machine if it is left out", "region", "zone", "rack", "machine"),
			}),
		}}
		return object{"oneOf": []any{one, list(one, dag.MaxPlacements)}}
	}
	on := object{}
	for event, words := range map[dag.Happening][]any{
		dag.PodFailed:     {"restartGang", "restartRole", "abort"},
		dag.PodEvicted:    {"restartGang", "restartRole"},
		dag.TaskFailed:    {"abort"},
		dag.TaskCompleted: {"complete"},
	} {
		reaction := object{"action": oneOf(words...)}
		if event == dag.PodFailed {
			reaction["limit"] = object{
				"type": "integer", "minimum": 1, "maximum": dag.MaxRetries,
				"description": "of restartGang and restartRole: how often, before the job fails",
			}
		}
		if event == dag.PodFailed {
			reaction["exitCodes"] = with(
				list(object{"type": "integer", "minimum": 1, "maximum": 255}, dag.MaxReactions),
				"the exit codes that it is for; any if it is left out")
		}
		one := record([]string{"action"}, reaction)
		on[string(event)] = object{"oneOf": []any{oneOf(words...), one, list(one, dag.MaxReactions)}}
	}
	taskSchema := record(nil, task)
	taskSchema["anyOf"] = []any{
		object{"required": []string{"gang"}, "properties": object{"gang": object{"type": "object"}}},
		object{"required": []string{"run"}},
		object{"required": []string{"recorded"}},
		object{"required": []string{"setup"}},
	}
	taskSchema["dependentRequired"] = object{"role": []string{"gang"}}
	taskSchema["not"] = object{"required": []string{"run", "recorded"}}
	root["not"] = object{
		"required": []string{"infeasible", "patience"}, "properties": object{"infeasible": object{"const": "fail"}},
	}
	maps.Copy(root, object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"$id":         "https://github.com/tradewind-broker/tradewind/blob/main/pkg/dag/native/schema.json",
		"$comment":    "Generated by go test ./pkg/dag/native -run TestSchemaIsCurrent -update. Do not edit.",
		"title":       "Tradewind job",
		"description": "A directed acyclic graph of batch tasks, " + dag.APIVersion,
		"$defs": object{
			"name":      object{"type": "string", "pattern": dag.NamePattern},
			"task":      taskSchema,
			"gang":      gang,
			"placement": placement(object{}),
			"placements": placement(object{"of": with(list(ref("name"), dag.MaxPlaced),
				"the tasks that it is about; all if it is left out. The name of a task with roles is all of them")}),
			"on":        record(nil, on),
			"service":   service,
			"resources": resourcesSchema,
			"duration": object{
				"type":    "string",
				"pattern": `^\s*(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d)\s*)+$`,
			},
			"size": object{"oneOf": []any{
				object{"type": "number", "minimum": 0, "maximum": float64(dag.MaxSize)},
				object{"type": "string", "pattern": `^` + sizePattern + `$`},
			}},
		},
	})
	return root
}

func TestSchemaIsCurrent(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(buildSchema()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), native.Schema()) {
		t.Error("schema.json is stale: run go test ./pkg/dag/native -run TestSchemaIsCurrent -update")
	}
}

// The schema has exactly the fields that the reader has.
func TestSchemaHasTheReadersFields(t *testing.T) {
	var s struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(native.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		schema map[string]any
		reader []string
	}{
		{"a job", s.Properties, native.Fields("job")},
		{"a task", s.Defs["task"].Properties, native.Fields("task")},
		{"resources", s.Defs["resources"].Properties, native.Fields("resources")},
		{"defaults", s.Properties["defaults"].(object)["properties"].(object), native.Fields("defaults")},
	} {
		got, want := slices.Sorted(maps.Keys(c.schema)), slices.Sorted(slices.Values(c.reader))
		if !slices.Equal(got, want) {
			t.Errorf("%s has fields %v in the schema and %v in the reader", c.what, got, want)
		}
	}
}
