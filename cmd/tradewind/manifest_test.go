package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
)

// meeting is a JobSet whose pods find each other. It has a ConfigMap, a Secret and an init container.
const meeting = `apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting: "it's here"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: hunter2hunter2}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: meet}
spec:
  replicatedJobs:
    - name: driver
      template:
        spec:
          template:
            spec:
              volumes:
                - {name: words, configMap: {name: words}}
                - {name: keys, secret: {secretName: keys}}
              initContainers:
                - {name: i, image: IMAGE, command: [sh, -c, "echo prepared for $(WHO) >/tmp/init"], env: [{name: WHO, value: all}]}
              containers:
                - name: c
                  image: IMAGE
                  command: [sh, -c, 'cat /tmp/init /words/greeting; echo; cat /keys/token; echo; grep -c "meet-.*[.]meet$" /etc/hosts; pwd']
                  workingDir: /work/here
                  volumeMounts: [{name: words, mountPath: /words}, {name: keys, mountPath: /keys}]
    - name: workers
      replicas: 2
      template:
        spec:
          completions: 2
          parallelism: 2
          template:
            spec:
              containers:
                - name: c
                  image: IMAGE
                  command: [sh, -c]
                  args: ['grep -q " $(ME)$" /etc/hosts || grep -q "$IP $ME " /etc/hosts && echo worker $J.$JOB_COMPLETION_INDEX is $(ME)']
                  env:
                    - {name: J, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/job-index']"}}}
                    - {name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
                    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
`

// withManifest returns a shell with real containers, in a folder with a manifest. The manifest uses the tests' own
// image.
func withManifest(t *testing.T, name, manifest string) *shell {
	t.Helper()
	s := build(t).in(t)
	for _, v := range containertest.Environ(t) {
		if strings.HasPrefix(v, "CONTAINERS_CONF=") || strings.HasPrefix(v, container.EngineEnv+"=") {
			s.env = append(s.env, v)
		}
	}
	s.dir = t.TempDir()
	file := strings.ReplaceAll(manifest, "IMAGE", containertest.Image)
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKubernetesManifestRuns runs the manifest in real containers, with a broker on the user's computer.
func TestKubernetesManifestRuns(t *testing.T) {
	s := withManifest(t, "meet.yaml", meeting)
	if _, errs, code := s.run("tradewind run meet.yaml"); code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", code, errs, s.must("tradewind logs last"))
	}
	for rank, want := range []string{
		"prepared for all\nit's here\n***\n5\n/work/here\n", "worker 0.0 is meet-workers-0-0\n", "worker 0.1 is meet-workers-0-1\n",
		"worker 1.0 is meet-workers-1-0\n", "worker 1.1 is meet-workers-1-1\n",
	} {
		if got := s.must("tradewind logs last --rank " + string(rune('0'+rank))); !strings.HasSuffix(got, want) {
			t.Errorf("the log of rank %d ends otherwise:\n%s\nwant\n%s", rank, got, want)
		}
	}
	hides(t, s.state, "hunter2hunter2")
}

// leading is a JobSet that has finished when its leader has. Its workers would run for ever.
const leading = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: lead}
spec:
  successPolicy: {operator: All, targetReplicatedJobs: [leader]}
  replicatedJobs:
    - name: leader
      template: {spec: {template: {spec: {containers: [{name: c, image: IMAGE,
        command: [sh, -c, 'grep -o "lead-.*[.]lead$" /etc/hosts | sort']}]}}}}
    - name: workers
      replicas: 2
      template: {spec: {template: {spec: {containers: [{name: c, image: IMAGE,
        command: [sh, -c, 'while :; do sleep 1; done']}]}}}}
`

// TestManifestEndsWithLeader runs the manifest in the same way. Its roles are tasks of a gang, and know each other's
// names.
func TestManifestEndsWithLeader(t *testing.T) {
	s := withManifest(t, "lead.yaml", leading)
	if _, errs, code := s.run("tradewind run lead.yaml"); code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", code, errs, s.must("tradewind logs last lead-leader"))
	}
	want := "lead-leader-0-0 lead-leader-0-0.lead\nlead-workers-0-0 lead-workers-0-0.lead\n" +
		"lead-workers-1-0 lead-workers-1-0.lead\n"
	if got := s.must("tradewind logs last lead-leader"); !strings.HasSuffix(got, want) {
		t.Errorf("the leader's log ends otherwise:\n%s\nwant\n%s", got, want)
	}
}
