package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/attack"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// loot is the script of a task that writes down everything that it can read on its machine, and then waits: its
// environment, the disk, and the command lines and environments of its parent processes (the agent and the boot
// script).
const loot = `{ env; p=$PPID; for n in 1 2 3 4; do tr '\0' '\n' </proc/$p/cmdline; tr '\0' '\n' </proc/$p/environ
  grep -qa TRADEWIND /proc/$p/environ || break; p=$(sed -n 's/^PPid:\t//p' /proc/$p/status); [ "$p" -gt 1 ] || break; done
  cd ../../../../../..; find . -type f -size -200k -exec cat {} +; } >%[1]s.$TRADEWIND_NODE_RANK.part 2>&1
mv %[1]s.$TRADEWIND_NODE_RANK.part %[1]s.$TRADEWIND_NODE_RANK
while [ ! -e %[1]s.done ]; do sleep 0.05; done`

// A task runs on a machine that has booted as on EC2. It uses everything that it finds in its environment, on the disk,
// in the metadata and in its user data, and even the token of its agent. It can change only the data of its own
// attempt: nothing else in the table, the buckets, the queues and EC2.
func TestTaskCannotAffectOtherAttempts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.offerProgram(ctx)
	file := filepath.Join(t.TempDir(), "loot")
	jobs := map[string]string{}
	for name, task := range map[string]string{
		"victim": "run: sleep 1000, nodes: 2", "unborn": "run: sleep 1000", "own": "nodes: 2, outputs: [{name: o, size: 1MiB}], run: " + fmt.Sprintf("%q", fmt.Sprintf(loot, file)),
	} {
		jobs[name] = w.submit(ctx, fmt.Sprintf("apiVersion: tradewind/v1\nname: %s\ntasks:\n  t: {%s, resources: {cpus: 2+, market: on-demand}, time: 10m}\n", name, task))
	}
	claims := func(name string, rank int) wire.Claims {
		return wire.Claims{Job: jobs[name], Cluster: record.ClusterID(jobs[name], 0, 1), Rank: rank}
	}
	launched := w.untilLaunched(ctx, 5)
	for rank, i := range launched[claims("victim", 0).Cluster] { // one of two nodes has said hello
		if rank == 0 {
			w.hello(ctx, i)
		}
	}
	var machines []booted
	for _, i := range launched[claims("own", 0).Cluster] {
		machines = append(machines, w.boot(ctx, i))
	}
	found := w.looted(ctx, file, machines)
	w.firstHellos(ctx, found, machines)
	bucket := "s3://" + w.name + "-work/"
	outputs := func(c wire.Claims, rank string) string {
		return bucket + wire.OutputPrefix(c.Job+"/t", c.Cluster) + rank + "/"
	}
	for _, key := range []string{strings.TrimPrefix(outputs(claims("victim", 0), "0"), bucket) + "files/x", "logs/a/b", "events/e", "catalog/c", "policy/scheduling.yaml"} {
		if _, err := w.s3().PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(w.name + "-work"), Key: &key, Body: strings.NewReader("precious")}); err != nil {
			t.Fatal(err)
		}
	}
	own := claims("own", 0)
	own.Expires = time.Now().Add(time.Hour)
	session, err := token.Mint(w.key(ctx), own)
	if err != nil {
		t.Fatal(err)
	}
	report := attack.Run(t, attack.Target{
		API: w.api.URL, Document: []byte(w.text(ctx, "/openapi.json")), Found: found, Session: session, Own: own,
		Others: []wire.Claims{claims("victim", 1), claims("unborn", 0)}, Folder: outputs(own, "0"),
		Foreign: []string{
			outputs(claims("victim", 0), "0") + "files/x", outputs(claims("victim", 0), "1"), outputs(own, "1") + "files/x", bucket + own.Job + "/t/out/other/0/files/x",
			bucket + "logs/a/b", bucket + "events/e", bucket + "catalog/c", bucket + "policy/scheduling.yaml", bucket + "agent/" + digest(program()) + "/tradewind-agent",
			bucket + "packs/" + strings.Repeat("a", 64), bucket, "s3://" + w.name + "-dags/evil.yaml", "s3://elsewhere/x", "file:///etc/passwd",
		},
		Names: map[string][]string{"task": {"t"}, "queue": {"default"}, "name": {"default", "schedule"}, "sha256": {strings.Repeat("a", 64)}},
		State: func() map[string]string { return w.everything(ctx) },
		Mine: func(name string) bool {
			return strings.HasPrefix(name, "record job#"+own.Job+" cluster#"+own.Cluster) || strings.HasPrefix(name, "record job#"+own.Job+" upload#"+own.Cluster) ||
				strings.HasPrefix(name, "object "+strings.TrimPrefix(outputs(own, "0"), "s3://"))
		},
	})
	t.Log(report)
	if report.Requests < 1000 || report.Secrets < 2 {
		t.Errorf("hardly an attack: %v", report)
	}
	if err := os.WriteFile(file+".done", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// firstHellos makes a task act as its machine's agent, with the tokens of the user data, the machine's own proof, and
// the proof of the other machine. The API refuses every second hello.
func (w *world) firstHellos(ctx context.Context, found string, machines []booted) {
	w.Helper()
	tokens := 0
	for _, text := range attack.Secrets(found) {
		c, err := token.Read(text)
		if err != nil || !c.Boot {
			continue
		}
		tokens++
		for _, m := range machines {
			status, answer := w.say(ctx, text, wire.Hello{Address: "10.6.6.6", Nonce: "mine", Proof: &wire.Proof{Cloud: "aws", Document: m.imds.Proof()}})
			want := http.StatusGone // the machine's own agent was the first
			if m.imds.LaunchIndex != c.Rank {
				want = http.StatusForbidden
			}
			if status != want {
				w.Errorf("rank %d's token with the proof of rank %d: %d %s, want %d", c.Rank, m.imds.LaunchIndex, status, answer, want)
			}
		}
		if status, answer := w.say(ctx, text, wire.Hello{Address: "10.6.6.6", Nonce: "mine"}); status != http.StatusForbidden {
			w.Errorf("rank %d's token without a proof: %d %s", c.Rank, status, answer)
		}
	}
	if tokens != 2 {
		w.Errorf("a task finds %d tokens of the machines' in the user data, want both, or this tests nothing", tokens)
	}
}

// looted waits until the task of every node has written its list, and adds the response of the metadata service.
func (w *world) looted(ctx context.Context, file string, machines []booted) string {
	w.Helper()
	var all bytes.Buffer
	for rank, m := range machines {
		for {
			raw, err := os.ReadFile(fmt.Sprintf("%s.%d", file, rank))
			if err == nil {
				all.Write(raw)
				break
			}
			if ctx.Err() != nil {
				w.Fatalf("rank %d wrote nothing: %v\n%s", rank, err, w.log.String())
			}
			w.round(ctx)
		}
		all.Write(plain(w.T, m.imds.UserData))
		all.Write(m.imds.Document())
		all.WriteString(m.imds.Proof())
	}
	if !strings.Contains(all.String(), "TRADEWIND_ATTEMPT=") {
		w.Fatalf("the task has found nothing: %.300q", all.String())
	}
	return all.String()
}

// submit submits a job as a user does.
func (w *world) submit(ctx context.Context, file string) string {
	w.Helper()
	status, raw := w.trySubmit(ctx, file)
	var job struct{ ID string }
	if err := json.Unmarshal(raw, &job); err != nil || job.ID == "" {
		w.Fatalf("%d %s", status, raw)
	}
	return job.ID
}

// trySubmit submits a job that may be refused.
func (w *world) trySubmit(ctx context.Context, file string) (status int, answer []byte) {
	w.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api.URL+"/v1/dags", strings.NewReader(file))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", signed)
	req.Header.Set("Content-Type", "application/yaml")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, raw
}

// untilLaunched simulates Lambda until n machines run, and returns them by cluster and rank.
func (w *world) untilLaunched(ctx context.Context, n int) map[string][]types.Instance {
	w.Helper()
	for ctx.Err() == nil {
		w.round(ctx)
		all := w.instances(ctx)
		if len(all) < n {
			continue
		}
		w.quiet(ctx)
		out := map[string][]types.Instance{}
		for _, i := range all {
			for _, tag := range i.Tags {
				if aws.ToString(tag.Key) == "tradewind:cluster" {
					out[*tag.Value] = append(out[*tag.Value], i)
				}
			}
		}
		for _, machines := range out {
			slices.SortFunc(machines, func(a, b types.Instance) int { return int(*a.AmiLaunchIndex - *b.AmiLaunchIndex) })
		}
		return out
	}
	w.Fatalf("no %d machines\n%s", n, w.log.String())
	return nil
}

// hello says hello for a machine, as its agent would, and returns the token for its attempt.
func (w *world) hello(ctx context.Context, i types.Instance) (session string) {
	w.Helper()
	id := aws.ToString(i.InstanceId)
	h := wire.Hello{Address: "10.0.0.1", Nonce: "its own", Rank: int(aws.ToInt32(i.AmiLaunchIndex)), Proof: &wire.Proof{Cloud: "aws", Document: w.metadata(id).Proof()}}
	status, body := w.say(ctx, w.tokenOf(ctx, id), h)
	var work wire.Work
	if err := json.Unmarshal([]byte(body), &work); err != nil || status >= http.StatusMultipleChoices {
		w.Fatalf("%d %s", status, body)
	}
	return work.Token
}

func (w *world) say(ctx context.Context, token string, h wire.Hello) (int, string) {
	w.Helper()
	return w.post(ctx, wire.PathHello, token, h)
}

// post sends a request as an agent does.
func (w *world) post(ctx context.Context, path, token string, what any) (int, string) {
	w.Helper()
	raw, _ := json.Marshal(what) // of strings
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api.URL+path, bytes.NewReader(raw))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// everything is all stored state: the table, the buckets, the number of messages in the queues, and the machines.
func (w *world) everything(ctx context.Context) map[string]string {
	w.Helper()
	out := map[string]string{}
	pages := dynamodb.NewScanPaginator(w.table, &dynamodb.ScanInput{TableName: &w.name, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			w.Fatal(err)
		}
		for _, item := range page.Items {
			var text []string
			for _, name := range slices.Sorted(maps.Keys(item)) {
				text = append(text, fmt.Sprint(name, "=", dump(item[name])))
			}
			out["record "+dump(item["pk"])+" "+dump(item["sk"])] = strings.Join(text, " ")
		}
	}
	for _, bucket := range []string{w.name + "-work", w.name + "-dags"} {
		objects := s3.NewListObjectsV2Paginator(w.s3(), &s3.ListObjectsV2Input{Bucket: &bucket})
		for objects.HasMorePages() {
			page, err := objects.NextPage(ctx)
			if err != nil {
				w.Fatal(err)
			}
			for _, o := range page.Contents {
				out["object "+bucket+"/"+*o.Key] = *o.ETag
			}
		}
	}
	for _, fn := range events.Functions() {
		depth, err := w.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: w.queueURL(ctx, fn), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
		})
		if err != nil {
			w.Fatal(err)
		}
		out["queue "+fn] = depth.Attributes["ApproximateNumberOfMessages"] + "+" + depth.Attributes["ApproximateNumberOfMessagesNotVisible"]
	}
	for _, i := range w.instances(ctx) {
		out["machine "+*i.InstanceId] = string(i.State.Name)
	}
	return out
}

// dump returns an attribute as text.
func dump(v dynamotypes.AttributeValue) string {
	switch v := v.(type) {
	case *dynamotypes.AttributeValueMemberS:
		return v.Value
	case *dynamotypes.AttributeValueMemberN:
		return v.Value
	case *dynamotypes.AttributeValueMemberB:
		return fmt.Sprintf("%.2000q", v.Value)
	}
	return fmt.Sprintf("%+v", v)
}
