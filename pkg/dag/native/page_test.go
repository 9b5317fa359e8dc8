package native_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

const page = "../../../docs/job-file.md"

// facts has, for each field, what the schema lacks: its default, an example (a value in YAML), and its meaning if the
// schema has no description.
var facts = map[string][3]string{
	"job.announce":       {"none", "pubsub://acme/jobs"},
	"job.apiVersion":     {"required", "tradewind/v1", "version of the form"},
	"job.budget":         {"none", "20 USD"},
	"job.deadline":       {"none", "6h"},
	"job.defaults":       {"none", "{retries: 2}"},
	"job.description":    {"none", "Trains the nightly model", "for people"},
	"job.env":            {"none", "{EPOCHS: 3}"},
	"job.infeasible":     {"`retry`", "wait"},
	"job.keep":           {"as its queue or the broker says, else `forever`", "90d"},
	"job.keepOnFailure":  {"0", "1h"},
	"job.labels":         {"none", "{team: vision}"},
	"job.name":           {"the file's name", "train"},
	"job.namespace":      {"none", "vision"},
	"job.notify":         {"none", "{webhook: 'https://example.org/hook'}"},
	"job.notify.command": {"none", "cat >>ended.jsonl"},
	"job.notify.email":   {"none", "me@example.org"},
	"job.notify.webhook": {"none", "https://example.org/hook"},
	"job.objective":      {"`cost`", "makespan"},
	"job.onFailure":      {"`stop`", "continue"},
	"job.patience":       {"1d, or until a later deadline", "12h"},
	"job.placement":      {"none", "{pack: region, of: [prepare, train]}"},
	"job.priority":       {"0", "10"},
	"job.queue":          {"`default`", "research"},
	"job.reference":      {"`m6i.xlarge`", "c7a.large"},
	"job.regions":        {"all", "[aws:us-east-1, gcp]"},
	"job.secrets":        {"none", "{HF_TOKEN: ssm:/team/hf}"},
	"job.weights":        {"none", "{cost: 1, time: 0.5}"},
	"job.weights.cost":   {"required", "1"},
	"job.weights.time":   {"required", "0.5"},
	"job.tasks":          {"required", "{train: {run: python train.py}}"},

	"task.after":            {"none", "[prepare]"},
	"task.after[].each":     {"false", "true"},
	"task.allowFailures":    {"0", "5%"},
	"task.array":            {"none", "{from: 1, to: 100, step: 3}"},
	"task.matrix":           {"none", "{lr: [0.1, 0.01], seed: [1, 2, 3]}"},
	"task.maxParallel":      {"no limit", "10"},
	"task.inputs[].each":    {"false", "true"},
	"task.after[].data":     {"size of the outputs", "10GiB"},
	"task.after[].outputs":  {"all", "[counts]"},
	"task.after[].task":     {"required", "prepare", "the task to wait for"},
	"task.checkpoint":       {"none", "{path: checkpoints, every: 10m, size: 2GiB}"},
	"task.checkpoint.every": {"on notice only", "10m"},
	"task.checkpoint.path":  {"required", "checkpoints"},
	"task.checkpoint.size":  {"0", "2GiB", "its expected size"},
	"task.env":              {"none", "{EPOCHS: 3}"},
	"task.framework":        {"none", "pytorch"},
	"task.gang":             {"none", "{roles: {worker: {replicas: 4}}}"},
	"task.inputs":           {"none", "[s3://bucket/words.txt]", "data that the task reads"},
	"task.inputs[].bucket":  {"must exist", "temporary"},
	"task.inputs[].from":    {"required", "prepare"},
	"task.inputs[].mount":   {"false", "cached"},
	"task.inputs[].output":  {"all", "counts"},
	"task.inputs[].path":    {"below `$TRADEWIND_INPUTS`", "/data"},
	"task.inputs[].size":    {"0", "40GiB", "its size, for the time and cost of moving it"},
	"task.inputs[].source":  {"none", "./words.txt"},
	"task.inputs[].uri":     {"required", "s3://bucket/words.txt"},
	"task.joins":            {"none", "train"},
	"task.labels":           {"the job's", "{team: vision}"},
	"task.login":            {"false", "true"},
	"task.nodes":            {"1", "1-16"},
	"task.on":               {"see [on](#on)", "{podEvicted: restartRole}"},
	"task.outputs":          {"all of `$TRADEWIND_OUTPUT`", "[{name: model, path: model.pt}]"},
	"task.outputs[].name":   {"required", "model", "name of the output"},
	"task.outputs[].path":   {"all", "model.pt"},
	"task.outputs[].size":   {"0", "1GiB", "its expected size"},
	"task.outputs[].uri":    {"none", "s3://bucket/models/"},
	"task.placement":        {"none", "{spread: zone}"},
	"task.recorded":         {"none", "2h"},
	"task.resources":        {"any machine", "{cpus: 4+, memory: 16+}"},
	"task.reference":        {"the job's", "c7a.large"},
	"task.retries":          {"0", "3"},
	"task.role":             {"the task's name", "worker"},
	"task.run":              {"none", "python train.py"},
	"task.secrets":          {"none", "[HF_TOKEN]"},
	"task.share":            {"true for arrays and 16 alike tasks without setup and instanceType", "true"},
	"task.service":          {"none", "{port: 8080, replicas: 2}"},
	"task.setup":            {"none", "pip install torch"},
	"task.spark":            {"none", "{main: jobs/etl.py, args: [2024]}"},
	"task.time":             {"learned, else 1h", "{V100: 4h, default: 9h}"},
	"task.time.default":     {"1h", "none"},
	"task.time.efficiency":  {"1", "0.4"},
	"task.time.nodes":       {"none", "{1: 8h, 2: 4h30m, 4: 2h30m}"},
	"task.time.serial":      {"0 with a range of nodes, else none", "0.05"},
	"task.time.flops":       {"none", "3e18"},
	"task.timeout":          {"none", "6h"},
	"task.within":           {"`region`", "zone"},
	"task.workdir":          {"none", "."},
	"task.workdir.ref":      {"the default branch", "v1.2"},
	"task.workdir.url":      {"required", "https://github.com/org/code"},

	"array.from":   {"0", "1"},
	"array.step":   {"1", "3"},
	"array.to":     {"required without values", "100"},
	"array.values": {"none", "[mean, median]"},

	"gang.minAvailable": {"all", "3"},
	"gang.on":           {"see [on](#on)", "{podFailed: abort}"},
	"gang.placement":    {"none", "{pack: zone}"},
	"gang.roles":        {"required", "{worker: {replicas: 4}}"},
	"gang.within":       {"`region`", "zone"},
	"role.max":          {"none", "8"},
	"role.min":          {"1", "2"},
	"role.minAvailable": {"all", "3"},
	"role.replicas":     {"1", "4"},

	"resources.accelerators":    {"none", "V100:4"},
	"resources.anyOf":           {"none", "[{accelerators: V100}, {accelerators: A100}]"},
	"resources.arch":            {"amd64, or any with an accelerator, a machine type, a family or a processor", "any"},
	"resources.burstable":       {"false, unless it is the machine type", "true"},
	"resources.cloud":           {"all", "aws"},
	"resources.cpus":            {"2+ if there is no memory either", "8"},
	"resources.disk":            {"30GiB", "200GiB"},
	"resources.image":           {"none", "docker:python:3.12"},
	"resources.cpu":             {"any", "genoa"},
	"resources.family":          {"any", "c7a"},
	"resources.instanceType":    {"any", "p3.2xlarge"},
	"resources.market":          {"`auto`", "spot"},
	"resources.maxUSDPerHour":   {"none", "0.50"},
	"resources.memory":          {"8+ if there are no cpus either", "32"},
	"resources.ordered":         {"none", "[{accelerators: A100}, {accelerators: V100}]"},
	"resources.region":          {"all", "us-east-1"},
	"resources.executors":       {"1", "2-10"},
	"resources.service":         {"none", "{name: emr, release: 7.5+}"},
	"resources.service.name":    {"required", "emr"},
	"resources.service.release": {"the newest with the version of Spark", "7.5+"},
	"resources.zone":            {"all", "us-east-1a"},

	"service.of":                     {"the task's name", "web"},
	"service.port":                   {"none", "8080"},
	"service.readiness":              {"a TCP connection", "/health"},
	"service.readiness.headers":      {"none", "{Authorization: token}"},
	"service.readiness.initialDelay": {"20m", "5m"},
	"service.readiness.path":         {"none", "/health"},
	"service.readiness.post":         {"none", `"{}"`},
	"service.readiness.timeout":      {"15s", "5s"},
	"service.replicas":               {"1", "3"},

	"spark.args":     {"none", "[2024, $TRADEWIND_OUTPUT/result]"},
	"spark.class":    {"required for a jar", "org.example.Main"},
	"spark.conf":     {"none", "{spark.sql.shuffle.partitions: 64}"},
	"spark.jars":     {"none", "[lib/tables.jar]"},
	"spark.main":     {"required", "jobs/etl.py"},
	"spark.packages": {"none", "['io.delta:delta-spark_2.12:3.2.0']"},
	"spark.pyFiles":  {"none", "[jobs/common.py]"},
	"spark.version":  {"3.5", "3.5+"},

	"on.podEvicted":           {"`restartGang`", "restartRole", "a machine was preempted or did not start"},
	"on.podEvicted.action":    {"required", "restartRole", "the reaction"},
	"on.podFailed":            {"as `retries`", "{action: abort, exitCodes: [2]}", "a machine's script ended with an error"},
	"on.podFailed.action":     {"required", "restartRole", "the reaction"},
	"on.podFailed.exitCodes":  {"any", "[137]"},
	"on.podFailed.limit":      {"as `retries`", "3"},
	"on.taskCompleted":        {"none", "complete", "all machines of the role succeeded"},
	"on.taskCompleted.action": {"required", "complete", "the reaction"},
	"on.taskFailed":           {"`abort`", "abort", "the task failed and is not retried"},
	"on.taskFailed.action":    {"required", "abort", "the reaction"},
	"placements.apart":        {"none", "{team: vision}"},
	"placements.by":           {"`machine`", "zone"},
	"placements.max":          {"1", "2"},
	"placements.of":           {"all", "[train]"},
	"placements.pack":         {"none", "rack"},
	"placements.spread":       {"none", "zone"},
}

// field is one row of a table.
type field struct {
	key, pointer string
	schema       object
}

// fields returns the fields of an object of the schema in order, and those of the objects in it. If a field has
// alternatives, all of them are listed. Roles and the alternatives of resources have the same fields as other
// objects, so the page describes them in its text.
func fields(key, pointer string, schema object) (all []field) {
	properties, _ := schema["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		f := field{key + "." + name, pointer + "/properties/" + name, properties[name].(object)}
		all = append(all, f)
		if name != "roles" && name != "anyOf" && name != "ordered" && name != "defaults" {
			all = append(all, fields(f.key, f.pointer, f.schema)...)
		}
	}
	if choice, ok := schema["oneOf"].([]any); ok {
		for i, o := range choice {
			all = append(all, fields(key, fmt.Sprintf("%s/oneOf/%d", pointer, i), o.(object))...)
		}
	}
	if items, ok := schema["items"].(object); ok && !strings.HasPrefix(key, "on.") && key != "placements" {
		all = append(all, fields(key+"[]", pointer+"/items", items)...)
	}
	slices.SortStableFunc(all, func(a, b field) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(all, func(a, b field) bool { return a.key == b.key })
}

// form returns the type of a value in words.
func form(s object) string {
	bare := func(k string) string { v, _ := s[k].(string); return v }
	switch name := strings.TrimPrefix(bare("$ref"), "#/$defs/"); name {
	case "":
	case "placement", "placements":
		return "[placement](#placement)"
	case "resources", "service", "spark", "on", "gang", "task", "array":
		return "[" + name + "](#" + name + ")"
	case "taskName":
		return "name"
	default:
		return name
	}
	if c, ok := s["const"]; ok {
		return fmt.Sprintf("`%v`", c)
	}
	if words, ok := s["enum"].([]any); ok {
		var all []string
		for _, w := range words {
			all = append(all, fmt.Sprintf("`%v`", w))
		}
		return strings.Join(all, ", ")
	}
	if choice, ok := s["oneOf"].([]any); ok {
		var all []string
		for _, o := range choice {
			if w := form(o.(object)); !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
		return strings.Join(all, " or ")
	}
	switch bare("type") {
	case "":
		return "text" // also a number or a boolean
	case "string":
		return "text"
	case "array":
		return "list of " + form(s["items"].(object))
	case "object":
		if of, ok := s["additionalProperties"].(object); ok {
			return "map of " + form(of)
		}
		return "object"
	case "integer":
		return fmt.Sprintf("integer, %.0f to %.0f", s["minimum"], s["maximum"])
	}
	return bare("type")
}

// TestJobFilePage compares the tables of fields in docs/job-file.md with the schema. -rewrite writes the tables. Each
// field needs a default and an example in facts, and its example must be valid by the schema.
func TestJobFilePage(t *testing.T) {
	var schema object
	if err := json.Unmarshal(native.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	defs := schema["$defs"].(object)
	tables := map[string][]field{"job": fields("job", "", schema)}
	for _, name := range []string{"task", "array", "gang", "resources", "spark", "service", "on", "placements"} {
		tables[name] = fields(name, "/$defs/"+name, defs[name].(object))
	}
	role := "/$defs/gang/properties/roles/additionalProperties"
	of := defs["gang"].(object)["properties"].(object)["roles"].(object)["additionalProperties"].(object)
	tables["role"] = slices.DeleteFunc(fields("role", role, of), func(f field) bool {
		return slices.ContainsFunc(tables["task"], func(o field) bool {
			return strings.TrimPrefix(o.key, "task.") == strings.TrimPrefix(f.key, "role.")
		})
	})
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(native.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	valid := func(pointer, text string) error {
		s, err := compiler.Compile("schema.json#" + pointer)
		if err != nil {
			return err
		}
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		j, err := json.Marshal(withTextKeys(v))
		if err != nil {
			return err
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(j)); err != nil {
			return err
		}
		return s.Validate(v)
	}
	body, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(body)
	for name, rows := range tables {
		var b strings.Builder
		b.WriteString("| field | type | default | meaning | example |\n| --- | --- | --- | --- | --- |\n")
		for _, f := range rows {
			fact, ok := facts[f.key]
			if !ok {
				t.Errorf("facts has no default and example of %s", f.key)
			} else if err := valid(f.pointer, fact[1]); err != nil {
				t.Errorf("the example of %s: %v", f.key, err)
			}
			meaning, ok := f.schema["description"].(string)
			if !ok {
				meaning = fact[2]
			}
			code := "`" + strings.TrimLeft(strings.TrimPrefix(f.key, name), ".") + "`"
			cells := []string{code, form(f.schema), fact[0], meaning, "`" + fact[1] + "`"}
			for i := range cells {
				cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
		from, end := "<!-- fields of "+name+" -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(got, from)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no %q with an end", page, from)
		}
		got = before + from + b.String() + end + after
	}
	if got != string(body) {
		if flag.Lookup("rewrite").Value.String() != "true" {
			t.Fatalf("%s is stale: go test ./pkg/dag/native -run TestJobFilePage -rewrite", page)
		}
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(got, -1) {
		if err := valid("", block[1]); err != nil {
			t.Errorf("an example: %v", err)
		}
		if _, err := native.Parse("job.yaml", []byte(block[1])); err != nil {
			t.Errorf("an example: %v", err)
		}
	}
}

// TestVariablesPage compares the variables in docs/job-file.md with those that the programs set and read.
func TestVariablesPage(t *testing.T) {
	body, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tests := []string{"emulator", "kubetest", "skytest", "rehearsal", "attack", "sim"}
	name, used := regexp.MustCompile(`"(TRADEWIND_[A-Z_]+)"`), map[string]bool{}
	for _, dir := range []string{"cmd", "functions", "internal", "pkg"} {
		err := filepath.WalkDir("../../../"+dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(tests, d.Name()):
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			code, err := os.ReadFile(path)
			for _, m := range name.FindAllSubmatch(code, -1) {
				used[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	delete(used, "TRADEWIND_GIVEN") // only used within the script that runs a Slurm script
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile("`(TRADEWIND_[A-Z_]+)").FindAllSubmatch(body, -1) {
		shown[string(m[1])] = true
	}
	for v := range used {
		if !shown[v] {
			t.Errorf("%s is not in %s", v, page)
		}
	}
	for v := range shown {
		if !used[v] {
			t.Errorf("%s names %s, which no program sets or reads", page, v)
		}
	}
}
