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

// Files with patterns for the files to leave out of a folder, in git's format. If one of the first two exists at the
// top of the folder, only that file counts. Otherwise git's own rules count: .gitignore files in every folder and in
// those above it that belong to the repository, and .git/info/exclude; .git itself is left out. Unlike git, files that
// are tracked although they match are left out too.
const (
	ownIgnore = ".tradewindignore"
	skyIgnore = ".skyignore"
	gitIgnore = ".gitignore"
	gitFolder = ".git"
)

// rule is one line of an ignore file (gitignore(5)).
type rule struct {
	base    string // the folder to which it applies: absolute, with slashes
	glob    string // pattern for paths below base
	include bool   // matching paths are included again
	folders bool   // it matches only folders
}

// rules are patterns of files to leave out. If several match, the last one counts.
type rules struct {
	list []rule
	git  bool
}

// rulesOf reads the ignore rules for the content of a folder with an absolute path. If committed is true, the folder
// has only committed files, and git's rules are not used.
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

// repositoryRules returns the rules of the folders above dir that belong to the same repository. They do not count if
// they would leave out dir itself, because the user named it.
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
		if found.ignored(path[i+1], true) {
			return none, err
		}
	}
	return found, err
}

// in returns the rules for the content of a folder: those for the folder itself, and those in its own .gitignore.
func (r rules) in(dir string) (rules, error) {
	if !r.git {
		return r, nil
	}
	more, err := readRules(dir, filepath.Join(dir, gitIgnore))
	return rules{git: true, list: append(slices.Clip(r.list), more...)}, err
}

// readRules reads a file that may be missing. Like git, it does not follow links.
func readRules(base, file string) ([]rule, error) {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // no rules
	}
	body, err := os.ReadFile(file) //nolint:gosec // of the folder that its user named
	return parseRules(base, body), err
}

// ignored reports whether a path is left out. The caller does not ask for paths in a folder that is left out.
func (r rules) ignored(p string, folder bool) bool {
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
			return !one.include
		}
	}
	return false
}

// parseRules parses an ignore file. As in git, an invalid pattern matches nothing.
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

// literal escapes the characters that are special for doublestar but not for git.
var literal = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`)

func parseRule(line string) (rule, bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	var one rule
	line, one.include = strings.CutPrefix(line, "!")
	line, one.folders = strings.CutSuffix(line, "/")
	if line == "" {
		return rule{}, false
	}
	glob, anchored := strings.CutPrefix(literal.Replace(line), "/")
	if !anchored && !strings.Contains(glob, "/") {
		glob = "**/" + glob
	}
	if strings.HasSuffix(glob, "/**") {
		glob += "/*" // as in git: the content of the folder, not the folder itself
	}
	one.glob = glob
	return one, true
}
