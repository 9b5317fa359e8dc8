package fault

import (
	"slices"
	"strconv"
	"strings"
)

// longestWord is the maximum length of a word that is compared, in bytes. A longer word is never a typing error.
const longestWord = 128

// DidYouMean returns a hint with the known word that is nearest to word, or "" if none is near enough to be a typing
// error.
func DidYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return "did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// elsewhere maps the names that other tools use for fields, without - and _, to the text to write here: a field, or a
// field with its value.
var elsewhere = map[string]string{
	"dependson": "after", "dependencies": "after", "depends": "after", "needs": "after", "requires": "after",
	"attempts": "retries", "restarts": "retries", "command": "run", "commands": "run", "cmd": "run", "script": "run",
	"args": "run", "vcpus": "cpus", "mem": "memory", "ram": "memory", "gpu": "accelerators", "gpus": "accelerators",
	"walltime": "timeout", "maxruntime": "timeout", "maxtime": "timeout", "wallclock": "timeout", "retry": "retries",
	"maxretries": "retries", "backofflimit": "retries", "envvars": "env", "machinetype": "instanceType",
	"duration": "time", "environment": "env", "envs": "env", "variables": "env",
	"container": "image", "docker": "image", "artifacts": "outputs", "partition": "queue", "jobqueue": "queue",
	"steps": "tasks", "jobs": "tasks", "maxprice": "budget", "numnodes": "nodes", "replicas": "nodes",
	"disksize": "disk", "diskgb": "disk", "usespot": "market: spot", "spot": "market: spot",
	"preemptible": "market: spot", "maxhourlycost": "maxUSDPerHour", "filemounts": "inputs", "imageid": "image",
	"activedeadlineseconds": "timeout", "timelimit": "timeout",
	"accelerator": "accelerators", "gputype": "accelerators",
	"maxrestarts": "retries", "maxattempts": "retries", "retrylimit": "retries", "nodecount": "nodes",
	"entrypoint": "run", "environmentvariables": "env", "volumes": "inputs", "mounts": "inputs", "ports": "service",
	"arraysize": "array", "parallelism": "maxParallel", "concurrency": "maxParallel", "maxconcurrency": "maxParallel",
	"cputype": "instanceType", "vmsize": "instanceType", "memgb": "memory", "memorygb": "memory", "memorymb": "memory",
}

// ofResources are the fields that belong to resources, so that they can be suggested where resources is known.
var ofResources = []string{"cpus", "memory", "accelerators", "market: spot", "disk", "image", "maxUSDPerHour"}

// OneOf returns a hint for an unknown word: the text to write here for another tool's name, or else the nearest known
// word, or else the list of known words.
func OneOf(word string, known []string) string {
	if here, ok := elsewhere[fold(word)]; ok {
		field, _, valued := strings.Cut(here, ":")
		switch {
		case slices.Contains(known, field) && valued:
			return "write " + here
		case slices.Contains(known, field):
			return "it is called " + here + " here"
		case slices.Contains(known, "resources") && slices.Contains(ofResources, here):
			if !valued {
				here += ": …"
			}
			return "write resources: {" + here + "}"
		}
	}
	if hint := DidYouMean(word, known); hint != "" {
		return hint
	}
	return "one of " + strings.Join(known, ", ")
}

// Nearest returns the known word with the fewest edits from word, ignoring case, - and _. It returns "" if that takes
// more than three edits, or more than a third of the length of word. If several are equally near, it prefers one with
// the same first letter, then the first one.
func Nearest(word string, known []string) string {
	if word == "" || len(word) > longestWord {
		return ""
	}
	w := fold(word)
	limit := max(1, min(3, len(w)/3))
	best, begins := "", false
	for _, k := range known {
		if len(k) > longestWord {
			continue
		}
		folded := fold(k)
		if len(w) == 1 && len(folded) == 1 {
			continue // every letter is one edit from every other
		}
		d := Distance(w, folded, limit)
		same := folded != "" && w != "" && folded[0] == w[0]
		if d < limit || d == limit && (best == "" || same && !begins) {
			best, begins, limit = k, same, d
		}
	}
	return best
}

// CheckWord returns an error if word is not one of the choices. what is the kind of word, for the error.
func CheckWord[T ~string](what string, word T, choices ...T) error {
	if slices.Contains(choices, word) {
		return nil
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	return New("unknown "+what+" "+Quote(string(word)), OneOf(string(word), words))
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// Distance returns the fewest insertions, deletions, replacements and swaps of neighbours that turn a into b, in
// bytes (the optimal string alignment distance), or limit+1 if there are more than limit.
func Distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	// Three rows of the usual table: the current one and the two before it.
	rows := [3][]int{}
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i+1)%3], rows[(i-1)%3], rows[i%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		if slices.Min(row) > limit {
			return limit + 1
		}
	}
	return min(rows[len(a)%3][len(b)], limit+1)
}
