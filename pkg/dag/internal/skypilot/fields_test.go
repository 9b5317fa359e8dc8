package skypilot

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

func readSky(t *testing.T, text string) *dag.Job {
	t.Helper()
	j, err := Parse("sky.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ~/sky_workdir must become the task's folder, wherever the home directory is.
func TestPathsInWorkdirAreRelative(t *testing.T) {
	for name, want := range map[string]string{
		"~/sky_workdir": ".", "~/sky_workdir/data": "data", "~/sky_workdir/a/../b/": "b",
		"~/sky_workdirs": "~/sky_workdirs", "~/data": "~/data", "data": "data",
	} {
		j := readSky(t, "run: x\nfile_mounts: {\""+name+"\": ./here}\n")
		if got := j.Tasks[0].Inputs[0].Path; got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
	}
}

func TestSkyPilotResources(t *testing.T) {
	const od = dag.MarketOnDemand
	some := dag.Resources{CPUs: dag.Range{Min: 1}, Memory: dag.Range{Min: 4}, Arch: "amd64", Market: od}
	with := func(change func(*dag.Resources)) dag.Resources {
		r := some
		change(&r)
		return r
	}
	accelerated := func(name string, count float64) dag.Resources {
		return dag.Resources{Accelerator: name, AcceleratorCount: count, Market: od}
	}
	for text, want := range map[string]struct {
		ordered   bool
		resources []dag.Resources
	}{
		// SkyPilot's defaults.
		"{}":                                 {resources: []dag.Resources{{CPUs: dag.Range{Min: 8}, Memory: dag.Range{Min: 32}, Arch: "amd64", Market: od}}},
		"null":                               {resources: []dag.Resources{{CPUs: dag.Range{Min: 8}, Memory: dag.Range{Min: 32}, Arch: "amd64", Market: od}}},
		"{cpus: null, infra: aws}":           {resources: []dag.Resources{{CPUs: dag.Range{Min: 8}, Memory: dag.Range{Min: 32}, Cloud: "aws", Arch: "amd64", Market: od}}},
		"{instance_type: p3.2xlarge}":        {resources: []dag.Resources{{InstanceType: "p3.2xlarge", Market: od}}},
		"{use_spot: True, cpus: 1+}":         {resources: []dag.Resources{with(func(r *dag.Resources) { r.Market = dag.MarketSpot })}},
		"{use_spot: no, cpus: 1+}":           {resources: []dag.Resources{some}},
		"{cpus: 4}":                          {resources: []dag.Resources{{CPUs: dag.Range{Min: 4, Max: 4}, Memory: dag.Range{Min: 16}, Arch: "amd64", Market: od}}},
		"{memory: 32+}":                      {resources: []dag.Resources{{Memory: dag.Range{Min: 32}, Arch: "amd64", Market: od}}},
		"{memory: 1024MB}":                   {resources: []dag.Resources{{Memory: dag.Range{Min: 1, Max: 1}, Arch: "amd64", Market: od}}},
		"{memory: 2Ti+}":                     {resources: []dag.Resources{{Memory: dag.Range{Min: 2048}, Arch: "amd64", Market: od}}},
		"{cpus: 4+, memory: 4x}":             {resources: []dag.Resources{{CPUs: dag.Range{Min: 4}, Memory: dag.Range{Min: 16}, Arch: "amd64", Market: od}}},
		"{cpus: 1+, disk_size: 1500MB}":      {resources: []dag.Resources{with(func(r *dag.Resources) { r.DiskGiB = 1 })}},
		"{cpus: 1+, disk_size: 256}":         {resources: []dag.Resources{with(func(r *dag.Resources) { r.DiskGiB = 256 })}},
		"{cpus: 1+, ephemeral_storage: 1tb}": {resources: []dag.Resources{with(func(r *dag.Resources) { r.DiskGiB = 1024 })}},
		// Places.
		"{cpus: 1+, infra: '*'}":                           {resources: []dag.Resources{some}},
		"{cpus: 1+, infra: '*/us-east-1'}":                 {resources: []dag.Resources{with(func(r *dag.Resources) { r.Region = "us-east-1" })}},
		"{cpus: 1+, infra: '*/*/us-east-1a'}":              {resources: []dag.Resources{with(func(r *dag.Resources) { r.Region = "us-east-1" })}},
		"{cpus: 1+, infra: aws/us-east-1/use1-az1}":        {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Region, r.Zone = "aws", "us-east-1", "use1-az1" })}},
		"{cpus: 1+, cloud: aws, zone: us-gov-west-1b}":     {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Region = "aws", "us-gov-west-1" })}},
		"{cpus: 1+, infra: GCP/us-east4/us-east4-b}":       {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Region, r.Zone = "gcp", "us-east4", "us-east4-b" })}},
		"{cpus: 1+, infra: k8s}":                           {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Arch = "kubernetes", "" })}},
		"{cpus: 1+, infra: 'kubernetes/a:b/c'}":            {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Region, r.Arch = "kubernetes", "a:b/c", "" })}},
		"{cpus: 1+, cloud: Azure, zone: '1'}":              {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud, r.Zone = "azure", "1" })}},
		"{cpus: 1+, infra: aws/x, any_of: [{infra: '*'}]}": {resources: []dag.Resources{some}},
		"{cpus: 1+, infra: aws/x, any_of: [{cloud: gcp}]}": {resources: []dag.Resources{with(func(r *dag.Resources) { r.Cloud = "gcp" })}},
		// Accelerators in all forms.
		"{accelerators: V100}":                 {resources: []dag.Resources{accelerated("V100", 1)}},
		"{accelerators: V100:4}":               {resources: []dag.Resources{accelerated("V100", 4)}},
		"{accelerators: 'A10:0.5'}":            {resources: []dag.Resources{accelerated("A10", 0.5)}},
		"{accelerators: {V100: 4}}":            {resources: []dag.Resources{accelerated("V100", 4)}},
		"{accelerators: {V100: 4, T4: 8}}":     {resources: []dag.Resources{accelerated("V100", 4), accelerated("T4", 8)}},
		"{accelerators: {'A100:1', 'K80:2'}}":  {resources: []dag.Resources{accelerated("A100", 1), accelerated("K80", 2)}},
		"{accelerators: {A100:1, V100:1}}":     {resources: []dag.Resources{accelerated("A100", 1), accelerated("V100", 1)}},
		"{accelerators: [L4:1, H100:8]}":       {ordered: true, resources: []dag.Resources{accelerated("L4", 1), accelerated("H100", 8)}},
		"{accelerators: tpu-v3-8}":             {resources: []dag.Resources{accelerated("tpu-v3-8", 1)}},
		"{accelerators: A10g}":                 {resources: []dag.Resources{accelerated("A10G", 1)}},
		"{any_of: [{accelerators: {T4, L4}}]}": {resources: []dag.Resources{accelerated("T4", 1), accelerated("L4", 1)}},
		"{accelerators: T4, ordered: [{infra: aws}, {accelerators: L4}]}": {ordered: true, resources: []dag.Resources{
			{Accelerator: "T4", AcceleratorCount: 1, Cloud: "aws", Market: od}, accelerated("L4", 1)}},
		// A missing field gets its default, regardless of the other fields.
		"{cpus: 2}":                   {resources: []dag.Resources{{CPUs: dag.Range{Min: 2, Max: 2}, Memory: dag.Range{Min: 8}, Arch: "amd64", Market: od}}},
		"{memory: 2x}":                {resources: []dag.Resources{{CPUs: dag.Range{Min: 8}, Memory: dag.Range{Min: 16}, Arch: "amd64", Market: od}}},
		"{cpus: 2, memory: 2x}":       {resources: []dag.Resources{{CPUs: dag.Range{Min: 2, Max: 2}, Memory: dag.Range{Min: 4}, Arch: "amd64", Market: od}}},
		"{cpus: 4, accelerators: T4}": {resources: []dag.Resources{{CPUs: dag.Range{Min: 4, Max: 4}, Accelerator: "T4", AcceleratorCount: 1, Market: od}}},
		"{cpus: 2, any_of: [{memory: 3+}, {infra: aws}]}": {resources: []dag.Resources{
			{CPUs: dag.Range{Min: 2, Max: 2}, Memory: dag.Range{Min: 3}, Arch: "amd64", Market: od},
			{CPUs: dag.Range{Min: 2, Max: 2}, Memory: dag.Range{Min: 8}, Cloud: "aws", Arch: "amd64", Market: od}}},
		// Images by region.
		"{cpus: 1+, image_id: {us-east-1: ami-1, us-west-2: ami-2}}": {resources: []dag.Resources{
			with(func(r *dag.Resources) { r.Region, r.Image = "us-east-1", "ami-1" }), with(func(r *dag.Resources) { r.Region, r.Image = "us-west-2", "ami-2" })}},
		"{cpus: 1+, region: us-west-2, image_id: {us-east-1: ami-1, us-west-2: ami-2}}": {resources: []dag.Resources{
			with(func(r *dag.Resources) { r.Region, r.Image = "us-west-2", "ami-2" })}},
		"{cpus: 1+, image_id: ami-1}": {resources: []dag.Resources{with(func(r *dag.Resources) { r.Image = "ami-1" })}},
	} {
		j := readSky(t, "run: x\nresources: "+text+"\n")
		if got := j.Tasks[0]; !reflect.DeepEqual(got.Resources, want.resources) || got.Ordered != want.ordered {
			t.Errorf(
				"%s:\n%+v, ordered %v\nwant\n%+v, %v",
				text,
				got.Resources,
				got.Ordered,
				want.resources,
				want.ordered,
			)
		}
	}
}

func TestMountsExpandVariables(t *testing.T) {
	for text, want := range map[string]string{
		"$A": "1", "${A}": "1", "x$A/${B}y": "x1/2y", "$AB": "$AB", "${A": "${A", "$": "$", "a$": "a$", "$$A": "$1", "${}": "${}", "$1": "$1", "${C}": "${C}", "${A-x}": "${A-x}", "$A$B$A": "121",
	} {
		r := newReader("x", yamlfile.Reader{})
		got := r.expand(
			&skyTask{Task: dag.Task{Env: map[string]string{"A": "1", "B": "2"}}, unset: map[string]bool{}},
			nil,
			"",
			text,
		)
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestSkyPilotNames(t *testing.T) {
	for text, want := range map[string][]string{
		"run: x":                                {"sky", "sky"},
		"name: a\nrun: x":                       {"a", "a"},
		"name: j\n---\nrun: x":                  {"j", "j-0"},
		"name: j\n---\nname: a\nrun: x":         {"j", "a"},
		"run: x\n---\nrun: y":                   {"sky", "sky-0", "sky-1"},
		"name: a\nrun: x\n---\nname: a\nrun: y": {"sky", "a", "a-2"},
		"name: _odd name_\nrun: x":              {"odd-name_", "odd-name_"},
		"name: j\n---\n\n---\nrun: x":           {"j", "j-0"},
	} {
		j := readSky(t, text)
		got := []string{j.Name}
		for _, task := range j.Tasks {
			got = append(got, task.Name)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is named %v, want %v", text, got, want)
		}
	}
}

// The tasks of a group must start together and know each other's names. The end of the primary task must end the
// others.
func TestTasksOfGroupStartTogether(t *testing.T) {
	const tasks = "---\nname: a\nrun: a\n---\nname: b\nrun: b\n"
	for header, want := range map[string]struct{ first, gang string }{
		"name: g\nexecution: parallel\n":                        {"", "g"},
		"execution: parallel\n":                                 {"", "sky"},
		"name: g\nexecution: parallel\nprimary_tasks: [a]\n":    {"a", "g"},
		"name: g\nexecution: parallel\nprimary_tasks: [a, b]\n": {"", "g"},
		"execution: serial\n":                                   {"", ""},
	} {
		j := readSky(t, header+tasks)
		if len(j.Tasks) != 2 || len(j.Warnings) > 0 || (len(j.Edges) == 0) != (want.gang != "") {
			t.Errorf("%s: %+v", header, j)
		}
		for i := range j.Tasks {
			task := &j.Tasks[i]
			if task.Gang != want.gang || j.Chief(i) != (want.first == task.Name) || task.Run != task.Name ||
				task.Env["SKYPILOT_JOBGROUP_NAME"] != want.gang {
				t.Errorf("%s: %+v", header, task)
			}
		}
	}
	for header, want := range map[string]string{
		"primary_tasks: [c]\nexecution: parallel\n":                 `sky.yaml:1:17: primary_tasks[0]: there is no task "c"`,
		"execution: parallel\ntermination_delay: 30s\n":             "sky.yaml:2:20: termination_delay: the other tasks end at once",
		"execution: parallel\nenvs: {A: b}\n":                       "sky.yaml:2:1: envs: unknown field",
		"termination_delay: 0\nexecution: parallel\nprimary: [a]\n": "sky.yaml:3:1: primary: unknown field",
	} {
		if _, err := Parse("sky.yaml", []byte(header+tasks)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// Alternatives that no supported cloud sells are omitted with a warning, unless none would remain.
func TestUnsoldAlternativesAreLeftOut(t *testing.T) {
	for text, want := range map[string]struct {
		left  int
		error string
	}{
		"{accelerators: {H100-SXM: 8, A100-80GB-SXM: 8, T4: 1}}":    {left: 1},
		"{accelerators: [H100-SXM, H100-NVL:2, L4, T4]}":            {left: 2},
		"{any_of: [{infra: runpod}, {cloud: Vast}, {infra: aws}]}":  {left: 1},
		"{ordered: [{infra: slurm/c}, {infra: aws}, {infra: gcp}]}": {left: 2},
		"{accelerators: [H100-SXM, A100-80GB-SXM]}":                 {error: "sky.yaml:2:27: resources.accelerators: none of these is sold"},
		"{accelerators: H100-SXM}":                                  {error: `sky.yaml:2:27: resources.accelerators: "H100-SXM" is not sold`},
		"{infra: nebius/x}":                                         {error: "sky.yaml:2:20: resources.infra: the cloud nebius is not supported"},
		"{any_of: [{infra: runpod}, {cloud: vast}]}":                {error: "sky.yaml:2:39: resources.any_of: the cloud vast is not supported"},
	} {
		j, err := Parse("sky.yaml", []byte("run: x\nresources: "+text+"\n"))
		if want.error != "" {
			if err == nil || !strings.HasPrefix(err.Error(), want.error) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil || len(j.Tasks[0].Resources) != want.left || len(j.Warnings) == 0 {
			t.Errorf("%s: %v %+v", text, err, j)
		}
	}
}

func TestExitCodesOfRecoveryStartTheTaskAgain(t *testing.T) {
	j := readSky(t, "run: x\nresources:\n  job_recovery: {max_restarts_on_errors: 2, recover_on_exit_codes: [33, 34]}\n")
	task := &j.Tasks[0]
	if task.RetriesAfter(33) != jobtext.MaxRetries || task.RetriesAfter(1) != 2 || len(j.Warnings) > 0 {
		t.Errorf("%+v %q", task, j.Warnings)
	}
}

// Variables must also be replaced in names, services, stores and modes, in any order of the fields.
func TestVariablesAreReplacedInAllFields(t *testing.T) {
	j := readSky(t, `name: train-${MODEL}
service: {readiness_probe: "/v1/$MODEL", replicas: $N, ports: $PORT}
file_mounts:
  /data-$MODEL: {name: "b-$MODEL", store: $STORE, mode: $MODE, _bucket_sub_path: runs/$N}
run: x
envs: {MODEL: m, STORE: gcs, N: "1", MODE: COPY, PORT: 8080}
`)
	task := &j.Tasks[0]
	want := dag.Input{URI: "gs://b-m/runs/1", Path: "/data-m", Bucket: dag.BucketCreate}
	if j.Name != "train-m" || task.Service.Readiness.Path != "/v1/m" || task.Service.Port != 8080 ||
		!reflect.DeepEqual(task.Inputs[0], want) {
		t.Errorf("%s %+v %+v", j.Name, task.Service, task.Inputs)
	}
}

// An ignored field must get a warning with its line. SkyPilot's internal fields get none.
func TestSkyPilotWarnings(t *testing.T) {
	j := readSky(t, `run: x
num_nodes: 1
config: {gcp: {enable_gvnic: true}}
_metadata: {x: 1}
workdir: {url: "https://example.com/x.git"}
secrets: ["secrets:TOKEN"]
volumes: null
resources:
  ports: 8080
  labels: {a: b}
  _cluster_config_overrides: {}
  memory: 4x
  job_recovery: {strategy: FAILOVER, max_restarts_on_errors: 2}
`)
	want := []string{
		"sky.yaml:3:30: config.gcp.enable_gvnic: is read but ignored",
		"sky.yaml:10:11: resources.labels: is ignored: machines have the labels of --tag",
		"sky.yaml:13:28: resources.job_recovery.strategy: is ignored: the plan decides where to move",
		"sky.yaml:9:10: resources.ports: is read but ignored",
	}
	if !reflect.DeepEqual(j.Warnings, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(j.Warnings, "\n"), strings.Join(want, "\n"))
	}
	if j.Tasks[0].Retries != 2 {
		t.Errorf("%d retries", j.Tasks[0].Retries)
	}
}

// The modes, stores and persistence of SkyPilot's mounts must be converted to the native format.
func TestMountModesAndBuckets(t *testing.T) {
	j := readSky(t, `run: x
inputs: {s3://bucket/other: 1, s3://bucket/seen: 2}
file_mounts:
  /mount: {source: s3://bucket/ckpt, mode: MOUNT}
  /default: {source: s3://bucket/default}
  /cached: {name: mine, store: gcs, mode: MOUNT_CACHED}
  /gone: {name: mine-2, store: azure, mode: MOUNT, persistent: false}
  /seen: {source: s3://bucket/seen, mode: COPY}
  /plain: s3://bucket/plain
  /up: {name: up, source: ~/code, store: s3, mode: COPY}
  /below: {name: mine-3, store: s3, _bucket_sub_path: runs/1, persistent: true}
  /local: {source: ~/data, mode: MOUNT}
`)
	want := []dag.Input{
		{URI: "s3://bucket/ckpt", Path: "/mount", Mount: dag.MountWrite},
		{URI: "s3://bucket/default", Path: "/default", Mount: dag.MountWrite},
		{URI: "gs://mine", Path: "/cached", Mount: dag.MountCached, Bucket: dag.BucketCreate},
		{URI: "azblob://mine-2", Path: "/gone", Mount: dag.MountWrite, Bucket: dag.BucketTemporary},
		{URI: "s3://bucket/seen", Path: "/seen", Size: 2},
		{URI: "s3://bucket/plain", Path: "/plain"},
		{URI: "s3://up", Path: "/up", Bucket: dag.BucketCreate, Source: "~/code"},
		{URI: "s3://mine-3/runs/1", Path: "/below", Mount: dag.MountWrite, Bucket: dag.BucketCreate},
		{URI: "~/data", Path: "/local"},
		{URI: "s3://bucket/other", Size: 1},
	}
	if got := j.Tasks[0].Inputs; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	told := []string{
		"sky.yaml:12:11: file_mounts./local: local sources without the name of a bucket are copied to the machine: " +
			"files that the task writes there stay on the machine",
		"sky.yaml:2:29: inputs.s3://bucket/other: is copied to $TRADEWIND_INPUTS before the task starts",
	}
	if !reflect.DeepEqual(j.Warnings, told) {
		t.Errorf("%s\nwant\n%s", strings.Join(j.Warnings, "\n"), strings.Join(told, "\n"))
	}
}

func TestContainerImages(t *testing.T) {
	j := readSky(t, `run: x
resources:
  image_id: docker:ubuntu
  any_of: [{cpus: 1}, {cpus: 2, image_id: ami-1}, {cpus: 3, image_id: {us-east-1: "docker:a"}}]
`)
	var images []string
	for _, r := range j.Tasks[0].Resources {
		images = append(images, r.Region+"/"+r.Image)
	}
	if got, want := strings.Join(images, " "), "/docker:ubuntu /ami-1 us-east-1/docker:a"; got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}

func TestWarningsAreLimited(t *testing.T) {
	j := readSky(t, strings.Repeat("run: x\nevent_callback: x\n---\n", 1000))
	if len(j.Warnings) != dag.MaxWarnings ||
		!strings.HasSuffix(j.Warnings[dag.MaxWarnings-1], "more warnings than 100 are not shown") {
		t.Errorf("%d warnings, the last %q", len(j.Warnings), j.Warnings[len(j.Warnings)-1])
	}
}

// YAML 1.1 changes the text of some numbers. There must be a warning, without the value if it is a secret's.
func TestChangedNumbersGetWarnings(t *testing.T) {
	j := readSky(t, "run: x\nenvs:\n  ZIP: 010\n  PORT: 8080\n  AT: '12:30'\nsecrets:\n  PIN: 0012\n")
	if got := j.Tasks[0].Env; got["ZIP"] != "8" || got["PORT"] != "8080" || got["AT"] != "12:30" {
		t.Errorf("envs: %v", got)
	}
	if got := j.Stated["PIN"]; got != "10" {
		t.Errorf("secrets: %q", got)
	}
	const told = "is read as a number"
	got := strings.Join(j.Warnings, "; ")
	if strings.Count(got, told) != 2 || strings.Contains(got, "0012") {
		t.Errorf("warnings: %s", got)
	}
	for _, where := range []string{"sky.yaml:3:8: envs.ZIP: ", "sky.yaml:7:8: secrets.PIN: "} {
		if !strings.Contains(got, where+told) {
			t.Errorf("no warning about %s: %s", where, got)
		}
	}
}

// SkyPilot reads YAML 1.1 in Python. A boolean must become the text that Python writes.
func TestBooleansAreWrittenLikePython(t *testing.T) {
	for value, want := range map[string]string{
		"true": "True", "True": "True", "TRUE": "True", "yes": "True", "Yes": "True", "on": "True", "ON": "True",
		"false": "False", "False": "False", "no": "False", "NO": "False", "off": "False", "Off": "False",
		"!!bool yes": "True", "&a on": "True",
		`"true"`: "true", "'no'": "no", `!!str true`: "true", "|-\n    on": "on", "tRUE": "tRUE", "y": "y", "n": "n",
		"true.": "true.", "1": "1", "0.01": "0.01", "yes it is": "yes it is",
	} {
		const folder = "run: x\nfile_mounts: {/data: 's3://b/${V}'}\n"
		j := readSky(t, folder+"envs:\n  V: "+value+"\n")
		task := &j.Tasks[0]
		if got := task.Env["V"]; got != want || task.Inputs[0].URI != "s3://b/"+want {
			t.Errorf("envs: %s is %q, and in a path %s, want %q", value, got, task.Inputs[0].URI, want)
		}
		if got := readSky(t, "run: x\nsecrets:\n  V: "+value+"\n").Stated["V"]; got != want {
			t.Errorf("secrets: %s is %q, want %q", value, got, want)
		}
	}
}
