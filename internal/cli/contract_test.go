package cli

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/about"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/deployment"
	"github.com/tradewind-broker/tradewind/internal/cli/everycloud"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// tree returns every command of the program.
func tree(t *testing.T) []*cobra.Command {
	t.Helper()
	a := newApp(context.Background(), &Env{Clouds: everycloud.Support()}, nil)
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
	return all
}

// TestCommandsMatchContract lists the commands and flags that docs/cli.md promises.
func TestCommandsMatchContract(t *testing.T) {
	const contract = `
tradewind init: run needs time force output
tradewind run: on away agents cloud objective weights deadline budget queue env env-file policy scenario seed state catalog max-machines time-scale yes dry-run name cpus memory gpus disk time detach keep-on-failure secret secret-file pack-size pack-files output boot-times
tradewind config: output
tradewind token sign-in: state output
tradewind token rotate: state output
tradewind up: away dags addr policy scenario seed state catalog max-machines time-scale clouds public-url deployment agents boot-within kubernetes-jobs keep output boot-times limit-machines limit-usd-per-hour
tradewind cloud list: state output
tradewind cloud check: endpoint public-url state output
tradewind cloud add aws: bucket stores reserved proxy no-public-address tag image instance-profile mail-from profile services emr-role emr-profile job-role certificates regions print state output
tradewind cloud add azure: bucket reserved proxy no-public-address tag image subnets subscription resource-group principal aws-account aws-deployment aws-region aws-issuer stores storage-account tenant client regions print state output endpoint-url proofs
tradewind cloud add gcp: bucket reserved dags pull push-url push-account proxy no-public-address tag image tpus project service-account member aws-account aws-deployment aws-region network stores impersonate services spark-account subnetwork regions print state output endpoint-url proofs
tradewind cloud add kubernetes: agent-image context gang image-pull-secret kubeconfig namespace pool price root unproven-pods regions print state output
tradewind cloud add lambda: proxy key-file ssh-key regions print state output
tradewind cloud remove: aws-account aws-deployment aws-region forget state
tradewind plan: state objective weights deadline budget output model-out cloud catalog explain members frontier points time-limit least-carbon carbon-cap pack-size pack-files env env-file
tradewind prices show: prices state output
tradewind submit: cloud objective weights deadline budget queue env env-file endpoint state key update yes dry-run keep-on-failure secret secret-file pack-size pack-files output
tradewind status: watch members job-state queue name endpoint state limit output
tradewind top: endpoint state output
tradewind logs: follow attempt rank tail endpoint state since timestamps
tradewind cancel: reason endpoint state output
tradewind backup: force state output
tradewind restore: state output
tradewind rm: all-finished older-than yes endpoint state output
tradewind rerun: failed key yes endpoint state output
tradewind machines: all endpoint state output
tradewind markets: only bids endpoint state output
tradewind usage: last endpoint state output
tradewind suspend: queue drain by reason endpoint state output
tradewind resume: queue by endpoint state output
tradewind explain: members endpoint state output
tradewind exec: rank endpoint state
tradewind shell: rank endpoint state
tradewind forward: rank endpoint state
tradewind ssh-config: host rank endpoint state
tradewind queue list: endpoint state output
tradewind queue create: max max-running max-vcpu parent weight deserved guaranteed preempt closed keep description endpoint state output
tradewind queue explain: endpoint state output
tradewind queue policy check: output
tradewind queue set: max max-running max-vcpu parent weight deserved guaranteed preempt closed keep description endpoint state output
tradewind pool add: usd-per-hour place partitions description token-file endpoint state output
tradewind pool join: name type cpus memory gpu label token-file dir endpoint state output
tradewind pool list: endpoint state output
tradewind pool drain: now undo endpoint state output
tradewind pool remove: endpoint state output
tradewind dlq list: queue limit endpoint state output
tradewind dlq show: queue endpoint state output
tradewind dlq redrive: queue all endpoint state output
tradewind catalog search: state gpu cpus memory cloud region zone instance-type family cpu arch burstable spot market service spark max-interruption max-carbon limit cheapest-per sort catalog output
tradewind catalog accelerators: catalog output
tradewind catalog refresh: cloud state output
tradewind cost: catalog output
tradewind deploy aws: diff destroy yes name region regions cloud services kms-keys data-buckets make-buckets secrets unproven-machines architecture log-days planner-memory keep-data agents-call keep alarms all-alarms announce webhook mail-from traces trace-headers policy profile endpoint-url source assembly assets output limit-machines limit-usd-per-hour
tradewind deploy kubernetes: context namespace create-namespace image image-pull-secrets clouds public-url pod-namespaces callers storage memory storage-class dry-run remove keep-data yes output keep limit-machines limit-usd-per-hour
tradewind dashboard: port catalog endpoint state
tradewind tes: port endpoint state
tradewind doctor: state catalog output
tradewind version: output
tradewind upgrade: feed output
tradewind convert: env env-file out
tradewind schema:
`
	var got []string
	for _, c := range tree(t) {
		if c.HasSubCommands() || c.Hidden {
			continue
		}
		var flags []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		slices.Sort(flags)
		got = append(got, strings.TrimSpace(c.CommandPath()+": "+strings.Join(flags, " ")))
	}
	var want []string
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		name, flags, _ := strings.Cut(strings.TrimSpace(line), ":")
		sorted := strings.Fields(flags)
		slices.Sort(sorted)
		want = append(want, strings.TrimSpace(name+": "+strings.Join(sorted, " ")))
	}
	slices.Sort(got)
	slices.Sort(want)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("missing or changed: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("not in the contract: %s", g)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range tree(t) {
		if c.Short == "" || !c.Hidden && (c.Long == "" || c.Example == "") {
			t.Errorf("%s has no short, long or example text", c.CommandPath())
		}
		if strings.HasSuffix(c.Short, ".") || c.Short[:1] != strings.ToUpper(c.Short[:1]) {
			t.Errorf("%s: %q must begin with a capital and have no final dot", c.CommandPath(), c.Short)
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if n := len([]rune(strings.TrimSpace(line))); n > 120 {
				t.Errorf("%s: a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
		for line := range strings.Lines(c.Example) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "tradewind" {
				if found, _, err := c.Root().Find(words[1:]); err != nil || found == c.Root() {
					t.Errorf("%s: the example %q uses an unknown command", c.CommandPath(), line)
				}
			}
		}
	}
}

// TestJSONFieldsAreDocumented compares the output of -o json with docs/cli.md.
func TestJSONFieldsAreDocumented(t *testing.T) {
	body, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{
		planning.PlanResult{}, planning.PlanTask{}, planning.FrontierResult{}, planning.FrontierPoint{}, optimizer.Gap{}, apitypes.Runner{}, RunResult{}, apitypes.JobDetail{}, apitypes.JobView{}, apitypes.TaskView{}, apitypes.PlanHead{}, apitypes.Attempt{},
		apitypes.JobList{}, apitypes.Story{}, apitypes.Entry{}, apitypes.TaskWhy{}, apitypes.QueueList{}, apitypes.Queue{}, apitypes.DeadLetterList{}, apitypes.DeadLetter{}, apitypes.Redriven{}, planning.SearchResult{}, planning.FoundOffer{}, DoctorResult{}, Check{},
		catalog.Match{}, catalog.Offer{}, catalog.AcceleratorInfo{}, InitResult{}, about.Result{}, UpResult{}, TokenResult{}, TopResult{}, TopJob{}, DryRun{}, ConfigResult{}, settings.Row{}, settings.File{}, apitypes.PlanView{}, apitypes.PlanTask{}, deployment.KubernetesDeployment{},
		clouds.CloudList{}, clouds.CloudEntry{}, clouds.CloudForFunctions{}, clouds.CloudCheck{}, clouds.CheckedCloud{}, clouds.PublicCheck{}, driver.Report{}, clouds.CatalogRefresh{}, clouds.RenewedCloud{}, renew.Report{}, renew.Diff{}, renew.Change{},
		driver.Quota{}, driver.Lack{}, driver.Reserved{}, apitypes.MarketList{}, apitypes.MarketView{}, apitypes.Forecast{}, apitypes.Bid{}, apitypes.UsageView{}, apitypes.QueueUsage{},
	} {
		for _, field := range jsonFields(reflect.TypeOf(v)) {
			if !strings.Contains(string(body), "`"+field+"`") {
				t.Errorf("%T: %s is not in docs/cli.md", v, field)
			}
		}
	}
	for _, c := range tree(t) {
		if !c.Hidden && !strings.Contains(string(body), "`"+c.CommandPath()) {
			t.Errorf("%s is not in docs/cli.md", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !c.Hidden && f.Name != "help" && f.Name != "version" && !strings.Contains(string(body), "`--"+f.Name) {
				t.Errorf("%s --%s is not in docs/cli.md", c.CommandPath(), f.Name)
			}
		})
	}
}

// jsonFields returns the JSON names of a type's own fields.
func jsonFields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || name == "" {
			continue
		}
		names = append(names, name)
	}
	return names
}

func TestCompletion(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.jobs = append(p.hosts.broker.jobs, detail("demo-aaaaaa", apitypes.JobSucceeded, 1), detail("train-infer-bbbbbb", apitypes.JobRunning, 1))
	p.hosts.broker.queues = []apitypes.Queue{{Name: "default"}, {Name: "research"}}
	for line, want := range map[string]string{
		"status ":                  "train-infer-bbbbbb\trunning\ndemo-aaaaaa\tsucceeded\nlast\tthe newest job\n:36\n",
		"cancel tr":                "train-infer-bbbbbb\trunning\n:36\n",
		"logs demo tr":             "train\tsucceeded\n:4\n",
		"status demo ":             ":4\n",
		"run ":                     "yaml\nyml\njson\nxml\ndax\nsbatch\nslurm\ngz\n:8\n",
		"run x.yaml ":              ":4\n",
		"plan x --objective ":      "cost\nmakespan\n:4\n",
		"catalog search --gpu h20": "H200\n:4\n",
		"catalog search --region us-east-1,us-west-": "us-east-1,us-west-1\nus-east-1,us-west-2\nus-east-1,us-west-3\n:4\n",
		"catalog search --instance-type g5.2":        "g5.24xlarge\ng5.2xlarge\n:4\n",
		"run --gpus v10":                             "V100\nV100-32GB\n:4\n",
		"run --queue r":                              "research\n:4\n",
		"status --queue r":                           "research\n:4\n",
		"submit --queue x":                           ":4\n",
		"catalog search --arch ":                     "amd64\narm64\nany\n:4\n",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if r := p.run(args...); r.out != want {
			t.Errorf("%q: got %q, want %q\n%s", line, r.out, want, r.err)
		}
	}
	if p.hosts.open != 0 {
		t.Errorf("%d brokers are still open", p.hosts.open)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := p.run("completion", shell); r.code != command.ExitDone || !strings.Contains(r.out, "tradewind") {
			t.Errorf("%s: exit %d", shell, r.code)
		}
	}
}

func TestColourDependsOnTerminal(t *testing.T) {
	p := newProgram(t)
	p.environ = []string{"CLICOLOR_FORCE=1", "TERM=xterm-256color"}
	if r := p.run("rnu"); !strings.Contains(r.err, "\x1b[31merror:") {
		t.Errorf("not painted: %q", r.err)
	}
	p.environ = []string{"TERM=xterm-256color"}
	if r := p.run("rnu"); strings.Contains(r.err, "\x1b") {
		t.Errorf("painted although it is not a terminal: %q", r.err)
	}
	p.environ = []string{"CLICOLOR_FORCE=1", "NO_COLOR=1", "TERM=xterm-256color"}
	if r := p.run("rnu"); strings.Contains(r.err, "\x1b[31m") {
		t.Errorf("coloured although NO_COLOR is set: %q", r.err)
	}
}

func TestGlyphsDependOnLocale(t *testing.T) {
	for environ, ascii := range map[string]bool{
		"": false, "LANG=C": true, "LANG=en_US.UTF-8": false, "LC_ALL=POSIX LANG=en_US.UTF-8": true, "LC_CTYPE=C.utf8 LANG=C": false, "TERM=linux": true,
	} {
		a := newApp(context.Background(), &Env{Clouds: everycloud.Support(), Env: command.Env{Environ: strings.Fields(environ)}}, nil)
		if got := reflect.DeepEqual(a.glyphs(), progress.ASCII()); got != ascii {
			t.Errorf("%q: ASCII is %v", environ, got)
		}
	}
}

// A terminal of 80 × 24 also shows the prompt.
func TestHelpFitsOneScreen(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(newProgram(t).run("--help").out, "\n"), "\n")
	if len(lines) > 23 || len(lines) < 12 {
		t.Errorf("the help has %d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}
