package fault

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearestFindsTypingErrors(t *testing.T) {
	known := []string{"on", "deadline", "budget", "resources", "run", "env", "apiVersion", "a"}
	for word, want := range map[string]string{
		"dedline": "deadline", "DEADLINE": "deadline", "dead_line": "deadline", "budegt": "budget", "rn": "run", "bn": "on",
		"resource": "resources", "apiversion": "apiVersion",
		"colour": "", "x": "", "y": "", "": "", "environment": "", "nur": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q suggests %q, want %q", word, got, want)
		}
	}
}

func TestHints(t *testing.T) {
	known := []string{"spot", "on-demand"}
	for word, want := range map[string]string{
		"spto": `did you mean "spot"?`, "ondemand": `did you mean "on-demand"?`, "cheap": "one of spot, on-demand",
	} {
		if got := OneOf(word, known); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestNamesOfOtherToolsAreAnswered(t *testing.T) {
	task := []string{"run", "nodes", "after", "resources"}
	resources := []string{"cpus", "memory", "accelerators", "market", "disk"}
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"gpus", task, "write resources: {accelerators: …}"},
		{"gpus", resources, "it is called accelerators here"},
		{"use_spot", task, "write resources: {market: spot}"},
		{"use_spot", resources, "write market: spot"},
		{"num_nodes", task, "it is called nodes here"},
		{"disk_size", resources, "it is called disk here"},
		{"depends_on", task, "it is called after here"},
		{"max_restarts", append(task, "retries"), "it is called retries here"},
		{"accelerator", task, "write resources: {accelerators: …}"},
	} {
		if got := OneOf(c.word, c.known); got != c.want {
			t.Errorf("%q among %v: %s, want %s", c.word, c.known, got, c.want)
		}
	}
}

func TestDistanceMatchesDefinition(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		var d func(i, j int) int // distance between the first i characters of a and the first j of b
		d = func(i, j int) int {
			if i == 0 || j == 0 {
				return i + j
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			best := min(d(i-1, j)+1, d(i, j-1)+1, d(i-1, j-1)+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, d(i-2, j-2)+1)
			}
			return best
		}
		for limit := range 4 {
			if got, want := Distance(a, b, limit), min(d(len(a), len(b)), limit+1); got != want {
				t.Fatalf("%q to %q within %d: %d, want %d", a, b, limit, got, want)
			}
		}
	})
}
