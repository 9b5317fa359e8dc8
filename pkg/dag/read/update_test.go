package read_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// An update changes fields that may not change. The error must have the line in the new file.
func TestRejectedUpdatesHavePositions(t *testing.T) {
	const head = "apiVersion: tradewind/v1\nname: web\n"
	const web = "  web: {run: ./serve, service: {replicas: 2, port: 8080}}\n"
	const load = "  load: {run: ./load}\n"
	job := func(text string) *dag.Job {
		j, err := read.Job("web.yaml", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	old := job(head + "tasks:\n" + load + web)
	for text, want := range map[string]string{
		head + "tasks:\n" + load + web:                                               "",
		head + "tasks:\n" + load + strings.Replace(web, "2", "3", 1):                 "web.yaml:5:3: tasks.web.service: has 3 replicas, but 2 are running",
		head + "tasks:\n" + load + strings.Replace(web, "2", "1", 1):                 "web.yaml:5:3: tasks.web.service: has 1 replicas, but 2 are running",
		head + "tasks:\n" + load + web + "  more: {run: ./more}\n":                   `web.yaml:6:3: tasks.more: is new: the running job has no "more"`,
		head + "tasks:\n" + web:                                                      `web.yaml: tasks: "load" is missing, but it is running`,
		head + "placement: [{spread: zone, of: [web, load]}]\ntasks:\n" + load + web: "web.yaml: placement: differs from the running job",
	} {
		err := job(text).CheckUpdate(old)
		var bad *dag.Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
