package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/everycloud"
)

// fences matches the command blocks of a page, with the HTML comment before each.
var fences = regexp.MustCompile("(?sm)^([ ]*<!--[^>]*-->\n)?[ ]*```(?:sh|bash|console|shell)\n(.*?)^[ ]*```")

// pages returns the pages for users.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, dir := range []string{"../../docs", "../../examples", "../../clients"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") && !strings.Contains(path, "node_modules") {
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestDocsListAllCommands reads every tradewind and make command in the blocks of all pages. Each must exist and accept
// the flags and the number of arguments that the page shows.
func TestDocsListAllCommands(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	commands, targets := 0, 0
	for _, page := range pages(t) {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fences.FindAllStringSubmatch(string(body), -1) {
			if strings.HasPrefix(block[1], "<!-- file: ") {
				continue
			}
			for _, words := range shellCommands(block[2]) {
				for strings.Contains(words[0], "=") && len(words) > 1 { // variables
					words = words[1:]
				}
				switch {
				case filepath.Base(words[0]) == "tradewind":
					commands++
					if err := parses(words[1:]); err != nil {
						t.Errorf("%s: %s: %v", page, strings.Join(words, " "), err)
					}
				case words[0] == "make" && len(words) > 1 && !strings.Contains(words[1], "="):
					targets++
					if !strings.Contains(string(makefile), "\n"+words[1]+":") {
						t.Errorf("%s: there is no `make %s`", page, words[1])
					}
				}
			}
		}
	}
	if commands < 100 || targets < 5 {
		t.Errorf("%d commands and %d targets were read", commands, targets)
	}
}

// TestDocBlocksAreRunOrExcused reads the HTML comments before command blocks: each block is either run by a test in
// cmd/tradewind or has a reason why not.
func TestDocBlocksAreRunOrExcused(t *testing.T) {
	why := regexp.MustCompile(`^ *<!-- (not run: .{5,}|run|run with a broker) -->\n$`)
	ran := 0
	for _, page := range pages(t) {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fences.FindAllStringSubmatch(string(body), -1) {
			switch {
			case strings.HasPrefix(block[1], "<!-- file: "): // a file, not a command
			case block[1] == "" && strings.HasSuffix(page, "first-ten-minutes.md"), strings.HasPrefix(block[1], "<!-- run"):
				ran++
			case !why.MatchString(block[1]):
				t.Errorf("%s: no test runs this, and it does not say why:\n%s", page, block[2])
			}
		}
	}
	if ran < 10 {
		t.Errorf("%d blocks are run", ran)
	}
}

// parses returns an error unless the command exists with these flags.
func parses(words []string) error {
	root := newApp(context.Background(), &Env{Clouds: everycloud.Support()}, nil).root()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// shellCommands splits a script into commands of words like a shell. It supports what pages use: quotes, comments,
// continued lines, pipes, lists and $(…). It drops redirections and placeholders for readers.
func shellCommands(script string) (all [][]string) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	var words []string
	var word strings.Builder
	open, skip := false, false
	end := func() {
		w := word.String()
		if word.Reset(); open || w != "" {
			switch {
			case skip:
				skip = false
			case w == "†" || w == "…" || w == "$" && len(words) == 0:
			default:
				words = append(words, w)
			}
		}
		open = false
	}
	stop := func() {
		end()
		if len(words) > 0 {
			all = append(all, words)
		}
		words, skip = nil, false
	}
	text := []rune(script)
	for i := 0; i < len(text); i++ {
		switch r := text[i]; {
		case r == '\'' || r == '"':
			open = true
			for i++; i < len(text) && text[i] != r; i++ {
				if r == '"' && text[i] == '$' && i+1 < len(text) && text[i+1] == '(' { // a command within
					depth, from := 1, i+2
					for i += 2; i < len(text) && depth > 0; i++ {
						switch text[i] {
						case '(':
							depth++
						case ')':
							depth--
						}
					}
					i--
					all = append(all, shellCommands(string(text[from:i]))...)
					continue
				}
				word.WriteRune(text[i])
			}
		case r == '#' && word.Len() == 0 && !open:
			for i < len(text) && text[i] != '\n' {
				i++
			}
			stop()
		case r == '\n' || r == ';' || r == '|' || r == '&' || r == '(' || r == ')':
			if word.String() == "$" {
				word.Reset()
			}
			stop()
		case r == '>' || r == '<':
			end()
			for i+1 < len(text) && (text[i+1] == '>' || text[i+1] == '<') {
				i++
			}
			skip = true
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
		}
	}
	stop()
	return all
}
