package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli"
)

func TestLimitFlagsRejectInvalidNumbers(t *testing.T) {
	for args, want := range map[string]string{
		"--running 20 --vcpu 2.5": "",
		"--running 0 --vcpu 0":    "",
		"--vcpu -3":               "must be a number from 0 to 1000000000",
		"--vcpu 1e99":             "must be a number from 0 to 1000000000",
		"--vcpu NaN":              "must be a number from 0 to 1000000000",
		"--vcpu many":             "must be a number from 0 to 1000000000",
		"--running -1":            "must be a whole number from 0 to 1000000",
		"--running 1.5":           "must be a whole number from 0 to 1000000",
		"--running 1000001":       "must be a whole number from 0 to 1000000",
		"--max vcpus=-3":          "vcpus must be a number from 0 to 1000000000",
		"--max many":              "must be NUMBER or RESOURCE=NUMBER",
	} {
		var running int
		var vcpu float64
		var most cli.Flag
		f := pflag.NewFlagSet("queue", pflag.ContinueOnError)
		cli.Count(f, &running, "running", "")
		cli.Amount(f, &vcpu, "vcpu", "")
		f.Var(&most, "max", "")
		err := f.Parse(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if args == "--running 20 --vcpu 2.5" && (running != 20 || vcpu != 2.5) {
			t.Errorf("%s is read as %d and %v", args, running, vcpu)
		}
	}
}

func TestCheckTexts(t *testing.T) {
	for _, c := range []struct{ name, parent, description, want string }{
		{"research", "lab", "of the lab", ""},
		{"a/b", "", "", `"a/b" is not a valid queue name`},
		{"a", "b c", "", `--parent: "b c" is not a valid queue name`},
		{"a", "", strings.Repeat("é", 1025), "--description: it has 1025 characters, more than the maximum 1024"},
		{"a", "", strings.Repeat("é", 1024), ""},
	} {
		err := cli.CheckTexts(c.name, c.parent, c.description)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
