package pack

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The files that say what is left out of a folder, in git's form. Where one of the first two lies at the folder's top,
// it alone counts; else git's own rules do: .gitignore files in every folder and in those above it that belong to the
// repository, .git/info/exclude, and .git itself is left out. What git has been told to keep all the same is not asked.
const (
	ownIgnore = ".tradewindignore"
	skyIgnore = ".skyignore"
	gitIgnore = ".gitignore"
	gitFolder = ".git"
)

// rule is one line of an ignore file (gitignore(5)).
type rule struct {
	base    string // the folder that it holds for: absolute, with slashes
	glob    string // of paths below base
	again   bool   // what it matches is not left out after all
	folders bool   // it matches folders alone
}

// rules say what is left out; of several that match, the last one does.
type rules struct {
	list []rule
	git  bool
}

// rulesOf reads the rules that hold for what is in a folder, which is an absolute path; git's do not count where the
// folder has only what was committed.
func rulesOf(dir string, committed bool) (rules, error) {
	for _, name := range []string{ownIgnore, skyIgnore} {
		if body, err := os.ReadFile(filepath.Join(dir, name)); err == nil { //nolint:gosec // its user named the folder
			return rules{list: parseRules(dir, body)}, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return rules{}, err
		}
	}
	if committed {
		return rules{}, nil
	}
	above, err := repositoryRules(dir)
	if err != nil {
		return rules{}, err
	}
	return above.in(dir)
}

// repositoryRules are those that the folders above dir have, where they are of one repository with it. They do not
// count where they leave out dir itself, which its user named.
func repositoryRules(dir string) (rules, error) {
	none := rules{git: true}
	path := []string{dir} // from the repository's top to dir
	for {
		if _, err := os.Lstat(filepath.Join(path[0], gitFolder)); err == nil {
			break
		}
		above := filepath.Dir(path[0])
		if above == path[0] {
			return none, nil
		}
		path = slices.Insert(path, 0, above)
	}
	exclude, err := readRules(path[0], filepath.Join(path[0], gitFolder, "info", "exclude"))
	found := rules{git: true, list: exclude}
	for i := 0; i+1 < len(path) && err == nil; i++ {
		found, err = found.in(path[i])
		if found.leave(path[i+1], true) {
			return none, err
		}
	}
	return found, err
}

// in are the rules for what lies in a folder: those for the folder itself, and its own.
func (r rules) in(dir string) (rules, error) {
	if !r.git {
		return r, nil
	}
	more, err := readRules(dir, filepath.Join(dir, gitIgnore))
	return rules{git: true, list: append(slices.Clip(r.list), more...)}, err
}

// readRules reads a file that may be missing. As git does, it follows no link.
func readRules(base, file string) ([]rule, error) {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // there are none
	}
	body, err := os.ReadFile(file) //nolint:gosec // of the folder that its user named
	return parseRules(base, body), err
}

// leave says whether something is left out. What lies in a folder that is left out is not asked for.
func (r rules) leave(p string, folder bool) bool {
	if r.git && path.Base(filepath.ToSlash(p)) == gitFolder {
		return true
	}
	p = filepath.ToSlash(p)
	for _, one := range slices.Backward(r.list) {
		below, ok := strings.CutPrefix(p, strings.TrimSuffix(one.base, "/")+"/")
		if !ok || one.folders && !folder {
			continue
		}
		if match, err := doublestar.Match(one.glob, below); match && err == nil {
			return !one.again
		}
	}
	return false
}

// parseRules reads the lines of an ignore file. One that is no pattern matches nothing, as with git.
func parseRules(base string, body []byte) []rule {
	var list []rule
	text := strings.TrimPrefix(string(body), "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		if one, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			one.base = filepath.ToSlash(base)
			list = append(list, one)
		}
	}
	return list
}

// literal are the characters that mean something to doublestar and nothing to git.
var literal = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`)

func parseRule(line string) (rule, bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	var one rule
	line, one.again = strings.CutPrefix(line, "!")
	line, one.folders = strings.CutSuffix(line, "/")
	if line == "" {
		return rule{}, false
	}
	glob, anchored := strings.CutPrefix(literal.Replace(line), "/")
	if !anchored && !strings.Contains(glob, "/") {
		glob = "**/" + glob
	}
	if strings.HasSuffix(glob, "/**") {
		glob += "/*" // git: what is inside, not the folder
	}
	one.glob = glob
	return one, true
}
