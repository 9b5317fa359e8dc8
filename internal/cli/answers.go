package cli

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// answers describe the user's work.
type answers struct {
	run   string
	needs needs
	time  time.Duration
}

// needs are the requirements on a machine.
type needs struct {
	cpus, memoryGiB float64
	accelerators    string // NAME:COUNT
}

// yaml returns the resources of a task as YAML.
func (n needs) yaml() string {
	var parts []string
	if n.cpus > 0 {
		parts = append(parts, fmt.Sprintf("cpus: %g+", n.cpus))
	}
	if n.memoryGiB > 0 {
		parts = append(parts, fmt.Sprintf("memory: %g+", n.memoryGiB))
	}
	if n.accelerators != "" {
		parts = append(parts, "accelerators: "+n.accelerators)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Words for amounts, in lower case.
var (
	cpuWords    = []string{"cpu", "cpus", "vcpu", "vcpus", "core", "cores", "processor", "processors"}
	memoryWords = map[string]float64{"gb": 1, "gib": 1, "g": 1, "tb": 1024, "tib": 1024}
)

// parseNeeds parses text such as "8 CPUs", "4 cpus 32 GB", "A100", "V100:4" or "2 A100". known are the accelerators of
// the catalogue.
func parseNeeds(text string, known []catalog.AcceleratorInfo) (n needs, err error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '+' })
	for i := 0; i < len(words); i++ {
		word, count := words[i], 0.0
		if number, unit := splitNumber(word); number > 0 {
			count, word = number, unit
			if word == "" {
				if i++; i == len(words) {
					word = "cpus" // a number without a unit
				} else {
					word = words[i]
				}
			}
		}
		if err := n.add(word, count, known); err != nil {
			return n, err
		}
	}
	if n == (needs{}) {
		return n, fmt.Errorf("%q names no resource of a machine", text)
	}
	return n, nil
}

// splitNumber splits "8cpus" into its number and the rest. The number is 0 if the word does not begin with a positive
// number, or is a name that begins with one, such as 4090.
func splitNumber(word string) (float64, string) {
	end := strings.IndexFunc(word, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(word)
	}
	number, err := strconv.ParseFloat(word[:end], 64)
	if err != nil || number <= 0 || math.IsInf(number, 0) {
		return 0, word
	}
	return number, word[end:]
}

func (n *needs) add(word string, count float64, known []catalog.AcceleratorInfo) error {
	small := strings.ToLower(word)
	if slices.Contains(cpuWords, small) {
		n.cpus = cmp.Or(count, 1)
		return nil
	}
	if unit, ok := memoryWords[small]; ok && count > 0 {
		n.memoryGiB = count * unit
		return nil
	}
	name, number, counted := strings.Cut(word, ":")
	if counted {
		c, err := strconv.ParseFloat(number, 64)
		if err != nil || c <= 0 {
			return fmt.Errorf("%q: the colon must be followed by a count, as in V100:4", word)
		}
		count = c
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
		if strings.EqualFold(k.Name, name) {
			n.accelerators = fmt.Sprintf("%s:%g", k.Name, cmp.Or(count, 1))
			return nil
		}
	}
	err := fmt.Errorf("%q is neither CPUs (8 CPUs), memory (32 GB) nor an accelerator of the catalogue (A100:1)", word)
	if hint := fault.DidYouMean(name, names); hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// starters are files that a project often starts with, and their commands.
var starters = []struct{ file, run string }{
	{"main.py", "python3 main.py"}, {"train.py", "python3 train.py"}, {"run.py", "python3 run.py"},
	{"run.sh", "bash run.sh"}, {"main.sh", "bash main.sh"}, {"Makefile", "make"}, {"go.mod", "go run ."},
}

// guessCommand guesses the command of a folder.
func guessCommand(dir string) string {
	for _, s := range starters {
		if info, err := os.Stat(filepath.Join(dir, s.file)); err == nil && info.Mode().IsRegular() {
			return s.run
		}
	}
	return `echo "hello from $(hostname)"`
}

// scripts are the endings of files that an interpreter runs.
var scripts = []string{".py", ".sh", ".R", ".r", ".jl", ".rb", ".pl", ".js", ".m"}

// missingFile returns a local script that a command names and the folder lacks, or "".
func missingFile(dir, run string) string {
	for _, word := range strings.FieldsFunc(run, betweenWords) {
		if !filepath.IsLocal(word) || !slices.Contains(scripts, filepath.Ext(word)) || strings.HasPrefix(word, "-") {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, word)); err != nil {
			return word
		}
	}
	return ""
}

// interpreters are programs whose first argument is the file that they run. Versions may follow, as in python3.12.
var interpreters = []string{"python", "torchrun", "bash", "sh", "zsh", "ksh", "dash", "Rscript", "julia", "ruby",
	"perl", "node"}

// missingScript returns the relative file that a command runs first and the folder lacks, or "". A name without a
// folder may be a program of the machine.
func missingScript(dir string, words []string) string {
	if len(words) == 1 {
		words = firstCommand(words[0])
	}
	for len(words) > 0 && strings.Contains(words[0], "=") { // variables
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	file := words[0]
	if name := strings.TrimRight(filepath.Base(file), "0123456789."); slices.Contains(interpreters, name) {
		file = scriptOf(words[1:], strings.HasSuffix(name, "sh"))
	} else if !strings.Contains(file, "/") {
		return ""
	}
	if !filepath.IsLocal(file) {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
		return ""
	}
	return file
}

// scriptOf returns the file that an interpreter runs, or "" if it gets its program in another way.
func scriptOf(args []string, shell bool) string {
	code := "cemp" // -c CODE, -e CODE, -m MODULE, -p CODE
	if shell {
		code = "cs"
	}
	for i, arg := range args {
		switch {
		case arg == "-" || arg == "--eval" || arg == "--print" || arg == "--module":
			return ""
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-"):
			if strings.ContainsRune(code, rune(arg[len(arg)-1])) {
				return ""
			}
		case i == 0 || !strings.HasPrefix(args[i-1], "-") || slices.Contains(scripts, filepath.Ext(arg)):
			return arg
		}
	}
	return ""
}

// firstCommand returns the words of the first command of a line of a shell, as far as they are literal.
func firstCommand(line string) []string {
	end := strings.IndexAny(line, ";|&<>()\n\"'$`\\*?[{~#")
	if end < 0 {
		return strings.Fields(line)
	}
	words := strings.Fields(line[:end])
	if n := len(words); n > 0 && strings.ContainsRune("\"'$`\\*?[{~#", rune(line[end])) &&
		strings.HasSuffix(line[:end], words[n-1]) {
		return words[:n-1] // the last word continues
	}
	return words
}

// betweenWords reports whether a character separates the words of a command.
func betweenWords(r rune) bool { return strings.ContainsRune(" \t;|&<>()\"'", r) }

// needsFolder reports whether a command mentions a file of the folder, which must then be uploaded with the job.
func needsFolder(dir, run string) bool {
	for _, s := range starters {
		if run == s.run {
			if _, err := os.Stat(filepath.Join(dir, s.file)); err == nil {
				return true
			}
		}
	}
	for _, word := range strings.FieldsFunc(run, betweenWords) {
		if filepath.IsLocal(word) && word != "." {
			if _, err := os.Stat(filepath.Join(dir, word)); err == nil {
				return true
			}
		}
	}
	return false
}
