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
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

var update = flag.Bool("update", false, "write a new schema.json")

type object = map[string]any

const (
	number          = `([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`
	sizeUnitPattern = `(B|[KMGTPE]iB|[KMGTPE]i|[kKMGTPE]B)`
	sizePattern     = `\s*` + number + `\s*` + sizeUnitPattern + `?\s*`
)

// buildSchema returns the schema, field by field. Its limits and patterns are those of the package.
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
	line := object{"type": "string", "minLength": 1, "maxLength": jobtext.MaxTextBytes, "pattern": `^[^\r\n]*$`}
	script := object{"type": "string", "maxLength": jobtext.MaxScriptBytes}
	word := object{"type": "string", "minLength": 1, "maxLength": jobtext.MaxTextBytes, "pattern": `^[^\s*]+$`}
	amount := func(pattern string, most float64) object {
		return object{"oneOf": []any{
			object{"type": "number", "exclusiveMinimum": 0, "maximum": most},
			object{"type": "string", "pattern": pattern},
		}}
	}
	inside := object{
		"type":      "string",
		"minLength": 1,
		"maxLength": jobtext.MaxTextBytes,
		"pattern":   `^[^/~\r\n][^\r\n]*$`,
	}

	usd := func(description string) object {
		return object{"description": description, "oneOf": []any{
			object{"type": "number", "exclusiveMinimum": 0, "maximum": float64(dag.MaxBudget)},
			object{"type": "string", "pattern": `^\s*\$?` + number + `\s*(USD)?\s*$`},
		}}
	}
	sparkServices := oneOf("dataproc", "dataproc-serverless", "emr", "emr-serverless")
	resources := object{
		"cpus": with(
			amount(`^\s*(=?`+number+`|`+number+`(\+|-`+number+`))\s*$`, jobtext.MaxCPUs),
			"vCPUs: 8 or 8+ for at least 8, =8 for exactly 8, or 8-16",
		),
		"memory": with(
			amount(`^(=?`+sizePattern+`|`+sizePattern+`(\+|-`+sizePattern+`))\s*$`, jobtext.MaxMemoryGiB),
			"GiB: 32 or 32+ for at least 32, =32 for exactly 32, 32-64, or 512MiB",
		),
		"accelerators": object{
			"type":        "string",
			"pattern":     `^[^:,{}\s*]+(:\s*` + number + `)?$`,
			"description": "NAME or NAME:COUNT, such as V100:4",
		},
		"cloud":        object{"type": "string", "pattern": `^[^\s*:/]+$`, "description": "aws, gcp, azure, …"},
		"region":       with(word, "a region of the cloud"),
		"zone":         with(word, "a zone of the region"),
		"instanceType": with(word, "a machine type by its cloud's name"),
		"family":       with(word, "a family of machine types by its cloud's name: c7a, n2d, Dasv5"),
		"cpu": with(word, "a processor, or its generation: genoa, icelake, graviton3; `tradewind catalog search -o json` "+
			"shows them"),
		"arch": with(
			oneOf("amd64", "arm64", "any", "x86_64", "x86-64", "aarch64"),
			"the processor architecture; if omitted, amd64 for a machine that is chosen only by its size",
		),
		"burstable": with(
			object{"type": "boolean"},
			"true also allows machine types whose vCPUs may be busy only for a part of the time, such as t3 and e2-small",
		),
		"market": with(
			oneOf("auto", "spot", "on-demand"),
			"how capacity is bought; with auto the broker chooses",
		),
		"service": object{
			"description": "a managed service in place of machines, for a Spark task; with a mapping also its release",
			"oneOf": []any{sparkServices, record([]string{"name"}, object{
				"name":    with(sparkServices, "the service"),
				"release": with(word, "its release: 7.5 or 7.5.0, or 7.5+ for this one or a later one"),
			})},
		},
		"disk":          with(ref("size"), "the size of the machine's disk"),
		"maxUSDPerHour": usd("the maximum price of one machine per hour with its disk, in USD"),
		"image":         with(line, "a machine image or container image"),
	}
	labels := func(description string) object {
		return object{
			"type":          "object",
			"maxProperties": jobtext.MaxLabels,
			"propertyNames": object{"pattern": jobtext.LabelPattern},
			"additionalProperties": object{
				"type": []string{"string", "number", "boolean"}, "pattern": jobtext.LabelPattern,
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
		"maxItems":    jobtext.MaxAlternatives,
		"description": "alternatives, the cheapest first; the other fields of resources apply to each that does not have them",
	}
	all["ordered"] = object{
		"type":        "array",
		"items":       alternative,
		"minItems":    1,
		"maxItems":    jobtext.MaxAlternatives,
		"description": "alternatives in order of preference",
	}
	all["executors"] = object{
		"description": "for a Spark task: the number of executors, or a minimum and a maximum",
		"oneOf": []any{
			object{"type": "integer", "minimum": 1, "maximum": jobtext.MaxNodes},
			object{"type": "string", "pattern": `^\s*[0-9]+\s*(-\s*[0-9]+\s*)?$`},
		},
	}
	resourcesSchema := record(nil, all)
	resourcesSchema["not"] = object{"required": []string{"anyOf", "ordered"}}

	env := func(description string) object {
		return object{
			"type":          "object",
			"propertyNames": object{"pattern": jobtext.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"}},
			"additionalProperties": object{
				"type": []string{"string", "number", "boolean"},
			},
			"description": description,
		}
	}
	secrets := object{
		"description": "variables that are never printed: names, whose values the user passes at submission, " +
			"or a mapping from names to values or to references to stored values (ssm:/path)",
		"oneOf": []any{
			object{"type": "array", "items": object{
				"type": "string", "pattern": jobtext.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"},
			}},
			object{
				"type":          "object",
				"propertyNames": object{"pattern": jobtext.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"}},
				"additionalProperties": object{
					"type": []string{"string", "number", "boolean", "null"},
				},
			},
		},
	}
	machines := object{"type": "integer", "minimum": 1, "maximum": jobtext.MaxNodes}
	defaults := object{
		"setup": with(script, "shell script that runs before run, once on each machine, even if several tasks with this setup share "+
			"the machine; programs that it leaves running end with the task"),
		"workdir": object{
			"oneOf": []any{line, record([]string{"url"}, object{
				"url": with(line, "the URL of a git repository"),
				"ref": with(line, "a branch, tag or commit; the default branch if omitted"),
			})},
			"description": "a directory, a bucket URL or a git repository, staged to each machine",
		},
		"nodes": object{
			"description": "machines that run the task together: a number, or 1-16 for the best number among these",
			"oneOf": []any{
				machines,
				object{"type": "string", "pattern": `^\s*[1-9][0-9]{0,3}(\s*-\s*[1-9][0-9]{0,3})?\s*$`},
			},
		},
		"login": object{
			"type":        "boolean",
			"description": "run the scripts in an interactive bash, after ~/.bashrc",
		},
		"retries": object{
			"type":        "integer",
			"minimum":     0,
			"maximum":     jobtext.MaxRetries,
			"description": "how often the task is tried again after its own failures",
		},
		"timeout": with(ref("duration"),
			"the maximum time for setup and run together; if they take longer, the task is ended and not retried"),
		"checkpoint": with(record([]string{"path"}, object{
			"every": with(ref("duration"), "the time between two checkpoints; if omitted, one is saved only on notice of an interruption"),
			"path":  with(inside, "where the task writes it, below its directory"),
			"size":  ref("size"),
		}), "how the task saves its progress"),
		"time": object{
			"description": "the expected run time of the task: one time, or times by accelerator and instance type, with default for all others",
			"oneOf": []any{
				ref("duration"),
				object{"type": "object", "minProperties": 1, "additionalProperties": ref("duration"),
					"not": object{"required": []string{"default"}, "maxProperties": 1,
						"properties": object{"default": object{"const": jobtext.NoDefaultTime}}},
					"dependentRequired": object{"efficiency": []string{"flops"}}, "properties": object{
						"flops": with(object{"type": []string{"number", "string"}, "minimum": 1, "maximum": 1e30, "pattern": number}, "floating-point operations of the whole task; the time follows from the "+
							"half-precision ratings of its accelerators, and offers without a rating do not fit"),
						"efficiency": with(object{"type": "number", "exclusiveMinimum": 0, "maximum": 1},
							"the share of their rating that the accelerators reach"),
						"default": with(object{"oneOf": []any{ref("duration"), object{"const": jobtext.NoDefaultTime}}},
							"the time on all other machines; with none, other machines do not fit"),
						"serial": with(object{"type": "number", "minimum": 0, "maximum": 1},
							"the share of the task's time on one machine that more machines do not shorten; all other times "+
								"then mean one machine"),
						"nodes": object{"type": "object", "minProperties": 1, "additionalProperties": ref("duration"),
							"propertyNames": object{"pattern": "^[1-9][0-9]{0,3}$"},
							"description":   "times by the number of machines, in place of all others"},
					}},
			},
		},
		"reference": object{
			"description": "the machine type on which the time was measured; m6i.xlarge if it is missing",
			"type":        "string",
		},
		"resources": with(ref("resources"), "the machines on which the task runs"),
		"share": object{"type": "boolean", "description": "true lets the task share a machine with other " +
			"tasks of the job that need the same machine; it then reserves its cpus (default 1) and memory (default 2 GiB for " +
			"each vCPU). The default is true for arrays, and for 16 tasks or more that need the same machine, if they have " +
			"no setup and name no instanceType"},
		"labels":    labels("labels that identify the task in placement rules of other tasks"),
		"placement": with(ref("placement"), "rules about how close together or far apart its machines are, and about other tasks"),
	}
	boolean := object{"type": "boolean"}
	output := record([]string{"name"}, object{
		"name": ref("name"),
		"path": with(inside, "the path to save, below $TRADEWIND_OUTPUT; everything if omitted"),
		"uri":  with(line, "a URI to which the output is also copied"),
		"size": ref("size"),
	})
	input := object{"oneOf": []any{
		with(line, "the URI of existing data"),
		record([]string{"uri"}, object{
			"uri":  with(line, "s3://, gs://, azblob://, file:// or a local path"),
			"path": with(line, "where the task sees it"),
			"size": ref("size"),
			"mount": object{
				"enum": []any{true, false, "write", "cached"},
				"description": "mount the input read-only (true), for reading and writing (write), or for both through a cache on the " +
					"machine's disk (cached), instead of copying it to the machine first",
			},
			"bucket": with(oneOf("make", "temporary"),
				"create the bucket if it does not exist, and keep it (make) or delete it when the job has finished (temporary)"),
			"source": with(line, "a local path that is uploaded to the URI first"),
		}),
		record([]string{"from"}, object{
			"from":   with(ref("taskName"), "the task whose output is read; this task waits for it"),
			"each":   with(boolean, "if both tasks are arrays: each member reads from the member with the same index"),
			"output": with(ref("name"), "the output to read; all outputs if omitted"),
		}),
	}}
	after := object{"oneOf": []any{
		ref("taskName"),
		record([]string{"task"}, object{
			"task": ref("taskName"),
			"each": with(boolean, "if both tasks are arrays: each member waits for the member with the same index"),
			"outputs": with(
				list(ref("name"), jobtext.MaxFiles),
				"the outputs that are read: all if omitted, none if the list is empty",
			),
			"data": with(ref("size"), "the amount of data read, if it differs from the size of the outputs"),
		}),
	}}
	whole := func(least, most int, says string) object {
		return object{"type": "integer", "minimum": least, "maximum": most, "description": says}
	}
	scalars := object{"type": "array", "minItems": 1, "maxItems": jobtext.MaxTasks, "items": object{
		"type": []string{"string", "number", "boolean"}}}
	array := record(nil, object{
		"from":   whole(0, jobtext.MaxArrayIndex, "the index of the first member"),
		"to":     whole(0, jobtext.MaxArrayIndex, "the last index that a member may have"),
		"step":   whole(1, jobtext.MaxArrayIndex, "the distance between two indexes"),
		"values": with(scalars, "one member for each value, numbered from 0"),
	})
	array["oneOf"] = []any{object{"required": []string{"to"}}, object{"required": []string{"values"}}}
	framework := oneOf("pytorch", "tensorflow", "mpi", "horovod", "ray", "spark", "dask")
	task := maps.Clone(defaults)
	maps.Copy(task, object{
		"array": object{
			"description": "the task is an array and runs once for each member: a number of members, a range of indexes, " +
				"or a list of values",
			"oneOf": []any{whole(1, jobtext.MaxTasks, "the number of members"), ref("array")},
		},
		"matrix": object{
			"type": "object", "minProperties": 1, "additionalProperties": scalars,
			"propertyNames": object{"pattern": jobtext.EnvPattern, "not": object{"pattern": "^" + "TRADEWIND_"}},
			"description":   "the task is an array with a member for each combination of these values, numbered from 0",
		},
		"maxParallel": whole(1, jobtext.MaxTasks, "the maximum number of members that run at the same time"),
		"allowFailures": object{
			"description": "how many members may fail before the array fails: a number, or a share such as 5%",
			"oneOf": []any{
				object{"type": "integer", "minimum": 0, "maximum": jobtext.MaxTasks},
				object{"type": "string", "pattern": `^\s*` + number + `%$`},
			},
		},
		"run":   with(script, "shell script, on each machine"),
		"spark": with(ref("spark"), "the Spark application that the task runs in place of a script"),
		"gang": object{
			"description": "tasks of the same gang start together or not at all; at most " + fmt.Sprint(dag.MaxGang) +
				" tasks, which all wait for the same tasks. A mapping makes the task a gang with several roles",
			"oneOf": []any{ref("name"), ref("gang")},
		},
		"joins":     with(ref("name"), "the running gang that the task joins, as more machines of a role"),
		"role":      with(ref("name"), "the task's role in its gang; its name if omitted"),
		"framework": with(framework, "the framework whose environment variables describe the machines of the task, or of its gang, to each other"),
		"within": with(oneOf("zone", "region", "anywhere"),
			"the maximum distance between the machines of its gang; region if omitted"),
		"on":       with(ref("on"), "reactions of the gang, or the task, to events of its machines"),
		"service":  with(ref("service"), "the task is a service: it runs until its job is cancelled, and is replaced when it ends"),
		"recorded": with(ref("duration"), "a measured run time; the task waits that long instead of running a script"),
		"env":      env("environment variables, in addition to those of the job"),
		"secrets":  secrets,
		"after":    object{"type": "array", "items": after, "description": "the tasks to wait for"},
		"inputs":   list(input, jobtext.MaxFiles),
		"outputs":  with(list(output, jobtext.MaxFiles), "files in $TRADEWIND_OUTPUT that are saved"),
	})

	address := object{"type": "string", "pattern": jobtext.AddressPattern}
	notify := record(nil, object{
		"webhook": object{"type": "string", "pattern": "^https?://", "maxLength": jobtext.MaxTextBytes,
			"description": "the URL that the event is posted to"},
		"command": object{"type": "string", "maxLength": jobtext.MaxScriptBytes,
			"description": "a shell command that gets the event on standard input; only on a broker that buys nothing"},
		"email": object{"oneOf": []any{address, list(address, jobtext.MaxAddresses)},
			"description": "one address or several; only on a broker that can send e-mail with AWS"},
	})

	root := record([]string{"apiVersion", "tasks"}, object{
		"apiVersion":  object{"const": dag.APIVersion},
		"name":        with(ref("name"), "the name of the job; the name of the file if omitted"),
		"description": object{"type": "string", "maxLength": jobtext.MaxTextBytes},
		"objective":   with(oneOf("cost", "makespan", "weights"), "what a plan minimises"),
		"weights": with(record([]string{"cost", "time"}, object{
			"cost": with(object{"type": "number", "minimum": 0, "maximum": 1e9}, "for each USD"),
			"time": with(object{"type": "number", "minimum": 0, "maximum": 1e9}, "for each hour of the makespan"),
		}), "for objective weights: a plan minimises cost × its USD + time × its hours"),
		"deadline":      with(ref("duration"), "the maximum time from submission to the end of the last task"),
		"budget":        usd("the maximum cost, in USD"),
		"keepOnFailure": with(ref("duration"), "how long the machines of a failed task are kept for inspection, up to 24h"),
		"keep": object{
			"anyOf":       []any{ref("duration"), object{"const": "forever"}},
			"description": "how long records, logs and outputs are kept after the job's end: at least 1h, or forever; if omitted, the queue or the broker decides",
		},
		"queue": with(ref("name"), "the queue of the job"),
		"announce": object{"type": "string", "pattern": jobtext.TopicPattern,
			"description": "a topic of Google Cloud Pub/Sub on which the end of the job is published"},
		"notify":    with(notify, "who is notified when the job ends"),
		"namespace": with(ref("name"), "the user or team that owns the job, for the policy plugin namespace"),
		"reference": object{
			"description": "the machine type on which the tasks' times were measured, for tasks without a reference",
			"type":        "string",
		},
		"priority": object{
			"type":        "integer",
			"minimum":     -dag.MaxPriority,
			"maximum":     dag.MaxPriority,
			"description": "the priority in the queue; jobs with a higher one go first",
		},
		"infeasible": with(oneOf("retry", "fail", "wait"), "what to do if no plan is possible now: retry (the default) waits "+
			"if the only reason is places that are avoided for a time, and fails the job otherwise; fail never waits, wait always does"),
		"onFailure": with(oneOf("stop", "continue"), "what happens after a task has failed for good: stop ends the job, "+
			"continue still runs the tasks that do not depend on it, and then fails the job"),
		"patience": with(ref("duration"), "the maximum time to wait while no plan is possible; if omitted, a day, or until "+
			"the deadline if that is later"),
		"regions": object{
			"type":        "array",
			"items":       object{"type": "string", "pattern": `^[^\s*:/]+(:[^\s*/]+)?$`},
			"description": "the clouds and regions in which tasks may run: CLOUD or CLOUD:REGION",
		},
		"secrets": secrets,
		"labels":  labels("labels of every task"),
		"placement": with(ref("placements"), "rules about how close together or far apart the machines of several tasks are; "+
			"a rule applies to the tasks in its of, or to all"),
		"env":      env("environment variables of every task"),
		"defaults": with(record(nil, defaults), "fields of every task that does not have them itself"),
		"tasks": object{
			"type":                 "object",
			"minProperties":        1,
			"maxProperties":        jobtext.MaxTasks,
			"propertyNames":        ref("name"),
			"additionalProperties": ref("task"),
			"description":          "the tasks by name",
		},
	})
	role := maps.Clone(task)
	for _, field := range []string{"gang", "joins", "role", "framework", "within", "after", "inputs", "secrets", "nodes",
		"service", "share", "spark", "array", "matrix", "maxParallel", "allowFailures"} {
		delete(role, field)
	}
	for field, says := range map[string]string{
		"min":          "the number of machines at the start, if more may join later; 1 if omitted",
		"max":          "the maximum number of machines; those above min join while the gang runs, and may leave",
		"minAvailable": "the number of replicas with which the role can start; all if omitted",
	} {
		role[field] = with(maps.Clone(machines), says)
	}
	role["replicas"] = with(maps.Clone(machines), "the number of machines; 1 if omitted")
	gang := record([]string{"roles"}, object{
		"minAvailable": with(object{"type": "integer", "minimum": 1, "maximum": dag.MaxGang * jobtext.MaxNodes},
			"the number of machines, over all roles, with which the gang can start; all machines if omitted"),
		"within": with(oneOf("zone", "region", "anywhere"),
			"the maximum distance between its machines; region if omitted"),
		"roles": object{
			"type":                 "object",
			"minProperties":        1,
			"maxProperties":        dag.MaxGang,
			"propertyNames":        ref("name"),
			"additionalProperties": record(nil, role),
			"description":          "the roles by name; the other fields of the task apply to each role that does not have them",
		},
		"placement": with(ref("placement"), "rules about how close together or far apart the machines of all roles are, and about other tasks"),
		"on":        with(ref("on"), "reactions of the gang to events of the machines of any role"),
	})
	scalar := object{"type": []string{"string", "number", "boolean"}}
	file := func(kinds string) object {
		return object{"type": "string", "maxLength": jobtext.MaxTextBytes, "pattern": `^[^, ]+\.(` + kinds + `)$`}
	}
	spark := record([]string{"main"}, object{
		"main": with(file("py|jar"), "the application: a Python file or a jar, as a path or a URI"),
		"class": with(object{"type": "string", "minLength": 1, "maxLength": jobtext.MaxTextBytes},
			"the main class of a jar"),
		"args": with(list(scalar, jobtext.MaxSparkArgs),
			"its arguments; $NAME stands for a variable of the task, $$ for a dollar sign"),
		"pyFiles": with(list(file("py|zip|egg"), jobtext.MaxSparkFiles), "Python files that it imports, and zips and eggs of them"),
		"jars":    with(list(file("jar"), jobtext.MaxSparkFiles), "jars on its class path"),
		"packages": with(list(object{"type": "string", "pattern": `^[^:\s]+:[^:\s]+:[^:\s]+$`}, jobtext.MaxSparkFiles),
			"libraries of Maven Central"),
		"conf": with(object{"type": "object", "maxProperties": jobtext.MaxSparkConf,
			"propertyNames": object{"pattern": `^spark\.`}, "additionalProperties": scalar}, "properties of Spark"),
		"version": with(object{"type": []string{"string", "number"}, "pattern": `^[0-9]+(\.[0-9]+){0,2}\+?$`},
			"the version of Spark: 3.5 for any 3.5, 3.5.1 for exactly this one, 3.5+ for this one or a later one"),
	})
	spark["if"] = object{"properties": object{"main": object{"pattern": `\.jar$`}}}
	spark["then"] = object{"required": []string{"class"}, "not": object{"required": []string{"pyFiles"}}}
	spark["else"] = object{"not": object{"required": []string{"class"}}}
	probed := object{"type": "string", "maxLength": jobtext.MaxTextBytes, "pattern": `^/[^\s#]*$`}
	service := record(nil, object{
		"replicas": object{"type": "integer", "minimum": 1, "maximum": jobtext.MaxReplicas,
			"description": "the number of replicas; 1 if omitted"},
		"of": with(ref("name"), "the service of which this task is one replica, in place of replicas; the task's name if omitted"),
		"port": object{"type": "integer", "minimum": 1, "maximum": 65535,
			"description": "the port on which the task listens; without a port, a replica is ready as soon as it runs"},
		"readiness": object{
			"description": "how the broker checks that a replica is ready: the path of a GET request, or a mapping; without a path, " +
				"by a TCP connection to the port",
			"oneOf": []any{probed, record(nil, object{
				"path": with(probed, "the path of an HTTP request"),
				"post": object{"type": "string", "maxLength": jobtext.MaxTextBytes,
					"description": "the body of a POST; a GET if omitted"},
				"headers": object{"type": "object", "additionalProperties": object{
					"type": []string{"string", "number", "boolean"}}, "description": "headers of the request"},
				"initialDelay": with(ref("duration"), "the maximum time until a replica is ready for the first time; 20m if omitted"),
				"timeout":      with(ref("duration"), "the maximum time of one probe; 15s if omitted"),
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
				"spread": level("at most max machines in one region, zone, rack or machine", "region", "zone", "rack", "machine"),
				"max": object{"type": "integer", "minimum": 1, "maximum": jobtext.MaxNodes,
					"description": "for spread: the maximum number of machines in one place; 1 if omitted"},
			}),
			rule("pack", object{"pack": level("all machines in one region, zone or rack", "region", "zone", "rack")}),
			rule("apart", object{
				"apart": labels("never in the same place as a task with one of these labels, of this job or another"),
				"by":    level("for apart: what counts as the same place; machine if omitted", "region", "zone", "rack", "machine"),
			}),
		}}
		return object{"oneOf": []any{one, list(one, jobtext.MaxPlacements)}}
	}
	on := object{}
	for event, words := range map[dag.Event][]any{
		dag.PodFailed:     {"restartGang", "restartRole", "abort"},
		dag.PodEvicted:    {"restartGang", "restartRole"},
		dag.TaskFailed:    {"abort"},
		dag.TaskCompleted: {"complete"},
	} {
		reaction := object{"action": oneOf(words...)}
		if event == dag.PodFailed {
			reaction["limit"] = object{
				"type": "integer", "minimum": 1, "maximum": jobtext.MaxRetries,
				"description": "for restartGang and restartRole: the maximum number of restarts before the job fails",
			}
		}
		if event == dag.PodFailed {
			reaction["exitCodes"] = with(
				list(object{"type": "integer", "minimum": 1, "maximum": 255}, jobtext.MaxReactions),
				"the exit codes to which the reaction applies; any if omitted")
		}
		one := record([]string{"action"}, reaction)
		on[string(event)] = object{"oneOf": []any{oneOf(words...), one, list(one, jobtext.MaxReactions)}}
	}
	taskSchema := record(nil, task)
	taskSchema["anyOf"] = []any{
		object{"required": []string{"gang"}, "properties": object{"gang": object{"type": "object"}}},
		object{"required": []string{"run"}},
		object{"required": []string{"recorded"}},
		object{"required": []string{"setup"}},
		object{"required": []string{"spark"}},
	}
	taskSchema["dependentRequired"] = object{"role": []string{"gang"}}
	taskSchema["not"] = object{"anyOf": []any{
		object{"required": []string{"run", "recorded"}},
		object{"required": []string{"run", "spark"}},
		object{"required": []string{"recorded", "spark"}},
		object{"required": []string{"run", "resources"}, "properties": object{"resources": object{"anyOf": []any{
			object{"required": []string{"service"}},
			object{"required": []string{"anyOf"}, "properties": object{"anyOf": object{
				"contains": object{"required": []string{"service"}}}}},
		}}}},
		object{"required": []string{"array", "matrix"}},
	}}
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
			"name":      object{"type": "string", "pattern": jobtext.NamePattern},
			"taskName":  object{"type": "string", "pattern": jobtext.TaskPattern},
			"array":     array,
			"task":      taskSchema,
			"gang":      gang,
			"placement": placement(object{}),
			"placements": placement(object{"of": with(list(ref("taskName"), jobtext.MaxPlaced),
				"the tasks to which the rule applies; all if omitted. The name of a task with roles means all of them")}),
			"on":        record(nil, on),
			"service":   service,
			"spark":     spark,
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

// The schema must have exactly the fields that the reader accepts.
func TestSchemaMatchesReaderFields(t *testing.T) {
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
