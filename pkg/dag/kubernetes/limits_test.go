package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

// volcanoJob returns an object of a kind that has tasks with replicas. If the tasks are independent, minAvailable is
// 1.
func volcanoJob(kind, group, name, plugins string, replicas ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s/v1alpha1\nkind: %s\nmetadata: {name: %s}\n"+
		"spec:\n  minAvailable: 1\n  plugins: %s\n  tasks:\n", group, kind, name, plugins)
	for i, n := range replicas {
		fmt.Fprintf(&b, "    - name: t%d\n      replicas: %d\n"+
			"      template: {spec: {containers: [{name: c, image: i, command: [a]}]}}\n", i, n)
	}
	return b.String()
}

// TestLimitsOfFile checks that the maximum of each field is accepted, and that one more is an error.
func TestLimitsOfFile(t *testing.T) {
	const container = "{containers: [{name: c, image: i%d, command: [a]}]"
	podGroup := func(least, pods int) string {
		text := fmt.Sprintf("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"+
			"spec: {minMember: %d}\n", least)
		for i := range pods {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, annotations: "+
				"{scheduling.k8s.io/group-name: g}}\nspec: "+container+", restartPolicy: Never}\n", i, i)
		}
		return text
	}
	for what, c := range map[string]struct {
		most int
		text func(n int) string
		want string
	}{
		"pods that meet": {jobtext.MaxNodes, func(n int) string {
			return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n"+
				"spec:\n  completionMode: Indexed\n  completions: %d\n  parallelism: %[1]d\n"+
				"  template: {spec: "+container+", subdomain: j}}\n", n, 0)
		}, "job.yaml:5:3: 1001 pods, more than 1000"},
		"pods that do not": {10_000, func(n int) string {
			return volcanoJob("Job", "batch.volcano.sh", "v", "{}", 5000, n-5000)
		}, "job.yaml:5:3: spec: 10001 pods, more than 10000"},
		"roles with an image each": {dag.MaxGang, func(n int) string {
			text := "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\n" +
				"spec:\n  replicatedJobs:\n"
			for i := range n {
				text += fmt.Sprintf("    - {name: r%d, template: {spec: {template: {spec: "+container+"}}}}}\n", i, i)
			}
			return text
		}, "17 roles with different images, more than 16"},
		"pods of a group": {dag.MaxGang, func(n int) string { return podGroup(2, n) },
			"job.yaml:1:1: spec: 17 different pods are more than the 16 that can start together"},
		"pods that wait": {1000, func(n int) string {
			return volcanoJob("JobTemplate", "flow.volcano.sh", "a", "{}", n) + "---\n" +
				volcanoJob("JobTemplate", "flow.volcano.sh", "b", "{}", 1000) +
				"---\napiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\n" +
				"spec: {flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]}\n"
		}, "pods wait for each other more than 1000000 times"},
	} {
		for extra, want := range []string{"", c.want} {
			_, err := kubernetes.Parse("job.yaml", []byte(c.text(c.most+extra)))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%d %s: %v, want %q", c.most+extra, what, err, want)
			}
		}
	}
	if _, err := kubernetes.Parse("job.yaml", []byte(podGroup(1, dag.MaxGang+1))); err != nil {
		t.Errorf("independent pods: %v", err)
	}
}

// TestHostListsAreLimited: the host lists of a job may have at most 16 KiB together, with an equal share for each
// task. A longer list is omitted, but the number of the task's pods must still be set.
func TestHostListsAreLimited(t *testing.T) {
	for _, c := range []struct {
		job, task   string
		pods, bytes int
		there       bool
	}{{"v", "t", 10, 79, true}, {"vvvvv", "tt", 437, 8192, true}, {"vv", "t", 692, 8193, false}} {
		text := volcanoJob("Job", "batch.volcano.sh", c.job, "{svc: []}", c.pods, 1)
		j, err := kubernetes.Parse("job.yaml", []byte(strings.Replace(text, "name: t0", "name: "+c.task, 1)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range c.pods {
			names = append(names, fmt.Sprintf("%s-%s-%d.%[1]s", c.job, c.task, i))
		}
		list := strings.Join(names, ",")
		if there := strings.Contains(j.Tasks[0].Run, "_HOSTS="+list+"\n"); there != c.there || len(list) != c.bytes {
			t.Errorf("a list of %d bytes, not %d, is there: %v", len(list), c.bytes, there)
		}
		want := fmt.Sprintf("VC_%s_NUM=%d\n", strings.ToUpper(c.task), c.pods)
		if !strings.Contains(j.Tasks[0].Run, want) {
			t.Errorf("no %s in %s", want, j.Tasks[0].Run)
		}
	}
}
