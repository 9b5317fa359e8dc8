package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fence is a block of commands of a page, with the remark before it.
var fence = regexp.MustCompile("(?s)(<!--[^>]*-->\n)?```sh\n(.*?)```")

// testDocs runs every command of the first page that a user follows, as it stands there, in a folder of its own. What
// is not run says why in a remark before it.
func testDocs(t *testing.T, s *shell) {
	page, err := os.ReadFile("../../docs/first-ten-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	s.dir = t.TempDir()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(s.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "<!-- not run: ") {
			continue
		}
		script := filepath.Join(t.TempDir(), "block.sh")
		if err := os.WriteFile(script, []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		out := s.must("sh -e " + script)
		if strings.TrimSpace(out) == "" {
			t.Errorf("prints nothing:\n%s", block[2])
		}
		ran++
	}
	if ran < 5 {
		t.Errorf("%d blocks were run", ran)
	}
	if got := s.must("tradewind logs last shout"); !strings.HasPrefix(got, "HELLO FROM ") {
		t.Errorf("its log: %q", got)
	}
}
