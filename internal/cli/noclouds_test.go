package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
)

// A program without the clients of clouds plans and simulates, and says what it lacks and how to get it.
func TestProgramWithoutClouds(t *testing.T) {
	p := newProgram(t)
	p.clouds = clouds.None()
	job := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(job, []byte("apiVersion: tradewind/v1\nname: a\ntasks: {a: {run: x, time: 1h}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.ok(t, "plan", job, "--cloud", "aws")
	for _, line := range []string{
		"cloud add aws --profile work", "cloud list", "deploy aws --diff", "up --clouds aws", "run " + job + " --on aws",
		"catalog refresh --cloud aws", "up --kubernetes-jobs", "status --endpoint kubernetes:///tradewind", "doctor aws",
	} {
		r := p.run(strings.Fields(line)...)
		if r.code == 0 || !strings.Contains(r.err, "built without the clouds") || !strings.Contains(r.err, "make build") {
			t.Errorf("%s: exit %d\n%s", line, r.code, r.err)
		}
	}
}
