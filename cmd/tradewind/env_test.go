package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testEnv sets variables of a job in every supported way, and makes common mistakes.
func testEnv(t *testing.T, s *shell) {
	dir := t.TempDir()
	put := func(name, content string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	put("small.csv", "1,2\n")
	sky := put("sky.yaml", `envs: {STATED: in the file, OVER: in the file, SIZE: null}
secrets: {TOKEN: t0ken}
file_mounts:
  data.csv: `+dir+`/${SIZE}.csv
run: echo "$STATED|$OVER|$HERE|$LINE|$EMPTY|${SIZE}"; cat data.csv
`)
	own := put("own.yaml", `apiVersion: tradewind/v1
env: {OVER: of the job}
tasks:
  a: {run: 'echo "$OVER $HERE"', env: {OVER: of the task}, time: 1m}
`)
	lines := put("variables", "# remark\nexport LINE='of a line'\nOVER=of a line\n")
	s.env = append(s.env, "HERE=from here", "NOTHING=")
	s.must("tradewind run " + sky + " --env-file " + lines + " --env OVER=a=b --env HERE --env EMPTY= --env SIZE=small")
	if got, want := s.must("tradewind logs last"), "in the file|a=b|from here|of a line||small\n1,2\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	s.must("tradewind run " + own + " --env OVER=given --env HERE")
	if got, want := s.must("tradewind logs last"), "given from here\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	for line, want := range map[string]string{
		"run " + sky + " --env NOT_SET":                  "error: --env NOT_SET: the variable NOT_SET is not set\nhint: set it with --env NOT_SET=VALUE\n",
		"submit " + sky + " --env 1X=2":                  "error: --env: \"1X\" is not the name of an environment variable\n",
		"plan " + own + " --env-file " + own:             "error: " + own + ":1: is not NAME=value\n",
		"plan " + own + " --env-file none":               "error: none: no such file or directory\n",
		"run " + sky + " --env SIZE=small --env TOKEN=x": "error: " + sky + ":2:11: secrets.TOKEN: is a secret, not a variable\nhint: give it with --secret TOKEN\n",
		"plan " + own + " --env TRADEWIND_X=":            "error: --env: variables that begin with TRADEWIND_ are set by Tradewind\n",
	} {
		_, errs, code := s.run("tradewind " + line)
		if code != 2 || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: exit %d\n%s\nwant %s", line, code, errs, want)
		}
	}
}
