package read_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// What an update may not change is told at its line of the new file.
func TestAnUpdateThatIsRefusedNamesALine(t *testing.T) {
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
		head + "tasks:\n" + load + strings.Replace(web, "2", "3", 1):                 "web.yaml:5:3: tasks.web.service: has 3 replicas, and 2 run",
		head + "tasks:\n" + load + strings.Replace(web, "2", "1", 1):                 "web.yaml:5:3: tasks.web.service: has 1 replicas, and 2 run",
		head + "tasks:\n" + load + web + "  more: {run: ./more}\n":                   `web.yaml:6:3: tasks.more: is new: the job that runs has no "more"`,
		head + "tasks:\n" + web:                                                      `web.yaml: tasks: "load" is missing, and runs`,
		head + "placement: [{spread: zone, of: [web, load]}]\ntasks:\n" + load + web: "web.yaml: placement: is another than before",
	} {
		err := job(text).CheckUpdate(old)
		var bad *dag.Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
