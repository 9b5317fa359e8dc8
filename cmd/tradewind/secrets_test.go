package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testSecrets gives a job its secrets in every supported way, and makes common mistakes.
func testSecrets(t *testing.T, s *shell) {
	dir := t.TempDir()
	put := func(name, content string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	file := put("job.yaml", `name: hidden
secrets:
  FROM_ENV: null
  STATED: said-in-the-file
run: |
  echo "$FROM_ENV $STATED $FROM_FILE $DOTENV"
  printf '%s ' "$FROM_ENV" "$STATED" "$FROM_FILE" "$DOTENV" | wc -c
`)
	s.env = append(s.env, "FROM_ENV=from the environment")
	value, dotenv := put("value", "from a file\n"), put(".env", "# remark\nexport DOTENV=\"from dotenv\"\n")
	_, errs, code := s.run("tradewind run " + file + " --secret FROM_ENV --secret FROM_FILE=@" + value + " --secret-file " + dotenv)
	if code != 0 {
		t.Fatalf("exit %d:\n%s", code, errs)
	}
	if got, want := s.must("tradewind logs last"), "*** *** *** ***\n62\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := s.must("tradewind explain last") + s.must("tradewind status last -o json"); strings.Contains(got, "from the env") {
		t.Error("it is shown")
	}
	for line, want := range map[string]string{
		file: "error: " + file + ":3:3: secrets.FROM_ENV: has no value\n" +
			"hint: give it with --secret FROM_ENV, which takes it from the variable of that name\n",
		file + " --secret FROM_ENV=hunter2": "error: --secret FROM_ENV: everyone on this computer could read a value on the command line\n",
		file + " --secret NOT_SET":          "error: --secret NOT_SET: the variable NOT_SET is not set\n",
		file + " --secret 1X":               "error: --secret: \"1X\" is not the name of an environment variable\n",
		file + " --secret A=@none":          "error: none: no such file or directory\n",
		file + " --secret-file " + file:     "error: " + file + ":1: is not NAME=value\n",
	} {
		_, errs, code := s.run("tradewind submit " + line)
		if code != 2 || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: exit %d\n%s\nwant %s", line, code, errs, want)
		}
	}
	// A reference cannot be resolved, because there are no credentials for it.
	s.env = append(s.env, "AWS_EC2_METADATA_DISABLED=true", "AWS_ACCESS_KEY_ID=", "AWS_PROFILE=", "AWS_REGION=us-east-1",
		"AWS_CONFIG_FILE="+dir+"/none", "AWS_SHARED_CREDENTIALS_FILE="+dir+"/none")
	_, errs, code = s.run("tradewind run " + file + " --secret FROM_ENV=ssm:/a/b")
	if want := "error: " + file + ":3:3: secrets.FROM_ENV: cannot be fetched: ssm:/a/b: "; code != 2 || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d\n%s\nwant %s", code, errs, want)
	}
}
