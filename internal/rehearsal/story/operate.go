package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// cliWithin is the time limit of one command.
const cliWithin = 2 * time.Minute

// cli runs a command as a user with credentials would, and returns its output.
func (s *Story) cli(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cliWithin)
	defer cancel()
	c := s.command(ctx, args...)
	c.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("tradewind %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// command returns a command of the command line with a user's credentials.
func (s *Story) command(ctx context.Context, args ...string) *exec.Cmd {
	w := s.World
	c := exec.CommandContext(ctx, filepath.Join(w.Assets, "tradewind"), args...) //nolint:gosec // built together with this
	c.Dir = w.Dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir, "TRADEWIND_ENDPOINT=" + w.API,
		"TRADEWIND_SIGN_REGION=" + account.Region, "AWS_ACCESS_KEY_ID=" + w.User.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + w.User.SecretAccessKey, "AWS_EC2_METADATA_DISABLED=true",
	}
	return c
}

// cliJSON runs a command with JSON output and decodes it.
func (s *Story) cliJSON(ctx context.Context, into any, args ...string) error {
	raw, err := s.cli(ctx, "", append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("tradewind %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

const endless = `apiVersion: tradewind/v1
name: endless
tasks:
  wait:
    run: echo "waiting with $REHEARSED"; sleep 600
    secrets: [REHEARSED]
    resources: {cpus: 2+, cloud: aws, region: us-east-1}
    time: 10m
`

// waitingMasked is the log of that task.
const waitingMasked = "waiting with ***"

// operated submits a job with a secret by the command line, follows it until it prints, and cancels it.
func (s *Story) operated(ctx context.Context) (string, error) {
	// The daily schedule is due as well; its event waits in the queue until work arrives.
	if !s.World.Chaos {
		if err := s.World.Fire(ctx, events.FnRefresh); err != nil {
			return "", err
		}
	}
	if err := s.keepSecret(ctx); err != nil {
		return "", err
	}
	var id string
	if err := until(ctx, func() error {
		// With a key, so that it can be repeated if the answer is lost.
		out, err := s.cli(ctx, endless, "submit", "-", "--yes", "--key", "endless",
			"--secret", secretName+"=ssm:"+s.secretPath())
		id = strings.TrimSpace(string(out))
		return err
	}); err != nil {
		return "", err
	}
	said := "submit: " + id
	if err := until(ctx, func() error {
		out, err := s.cli(ctx, "", "logs", id, "wait")
		if err == nil && strings.TrimSpace(string(out)) != waitingMasked {
			err = fmt.Errorf("logs: %q", out)
		}
		return err
	}); err != nil {
		return said, err
	}
	items, files, err := s.hidden(ctx)
	if err != nil {
		return said, err
	}
	said += fmt.Sprintf("\nlogs: %s; the secret is in none of %d items of the table and of %d files", waitingMasked,
		items, files)
	var page *shown
	if !s.World.Chaos { // when calls fail, a page shows an error and is reloaded
		if page, err = s.show(ctx, id, "wait"); err != nil {
			return said, err
		}
	}
	if err := until(ctx, func() error {
		_, err := s.cli(ctx, "", "cancel", id)
		if err != nil && strings.Contains(err.Error(), "has already finished") {
			return nil // an earlier call, whose answer was lost, has cancelled the job; its state is checked below
		}
		return err
	}); err != nil {
		return said, err
	}
	err = until(ctx, func() error {
		var d apitypes.JobDetail
		if err := s.cliJSON(ctx, &d, "status", id); err != nil {
			return err
		}
		if d.State != apitypes.JobCancelled {
			return fmt.Errorf("status: %s", d.State)
		}
		said += "\ncancel: " + string(d.State) + ", " + d.TaskList[0].State
		return nil
	})
	if page != nil {
		err = errors.Join(err, page.over())
		said += "\ndashboard: a page has followed the job and its log to the end"
	}
	return said, err
}

// renewed checks for the catalogue that refresh has made from EC2's offers.
func (s *Story) renewed(ctx context.Context) (string, error) {
	if s.World.Chaos {
		return "left out: it takes ten seconds here, and a working function is killed every few", nil
	}
	var said string
	err := until(ctx, func() error {
		keys, err := s.keys(ctx, s.World.Bucket("work"), "catalog/")
		if err == nil && len(keys) == 0 {
			err = errors.New("the work bucket has no catalogue")
		}
		said = strings.Join(keys, " ")
		return err
	})
	return said, err
}

// rejected drops an invalid file.
func (s *Story) rejected(ctx context.Context) (string, error) {
	bucket := s.World.Bucket("dags")
	if err := s.put(ctx, bucket, "team/broken.yaml",
		[]byte("apiVersion: tradewind/v1\nname: broken\ntasks:\n  a:\n    rum: echo\n")); err != nil {
		return "", err
	}
	var remark string
	err := until(ctx, func() error {
		list, err := s.s3.ListObjectsV2(ctx,
			&s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String("team/broken.yaml.")})
		if err != nil {
			return err
		}
		if len(list.Contents) == 0 {
			return errors.New("the bucket has no error file")
		}
		out, err := s.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: list.Contents[0].Key})
		if err != nil {
			return err
		}
		defer out.Body.Close() //nolint:errcheck // only read from
		raw, err := io.ReadAll(out.Body)
		remark = aws.ToString(list.Contents[0].Key) + ": " + strings.TrimSpace(string(raw))
		return err
	})
	if err == nil && !strings.Contains(remark, "rum") {
		err = errors.New(remark)
	}
	return remark, err
}

// givenUp is the dead letter whose cause was fixed.
const givenUp = "given-up-1"

// redrive sends an unreadable event, and finds it among the dead letters after all retries. It then redrives another
// dead letter, whose cause was fixed. It uses the command line, like an operator.
func (s *Story) redrive(ctx context.Context) (string, error) {
	if err := s.garble(ctx); err != nil {
		return "", err
	}
	var letter apitypes.DeadLetter
	err := until(ctx, func() error {
		var list apitypes.DeadLetterList
		if err := s.cliJSON(ctx, &list, "dlq", "list", "--queue", events.FnSubmit); err != nil {
			return err
		}
		if len(list.DeadLetters) == 0 {
			return errors.New("there is no dead letter")
		}
		letter = list.DeadLetters[0]
		return nil
	})
	said := fmt.Sprintf("dlq list: %s was given up: %s", letter.Queue, letter.Reason)
	if err == nil && letter.Reason == "" {
		err = errors.New("it has no reason")
	}
	if err != nil {
		return said, err
	}
	if err := s.bury(ctx); err != nil {
		return said, err
	}
	n := 0
	if err := until(ctx, func() error {
		var done apitypes.Redriven
		err := s.cliJSON(ctx, &done, "dlq", "redrive", "--all", "--queue", events.FnSubmit)
		if err == nil {
			n += done.Redriven
		}
		if err == nil && n < 2 {
			err = fmt.Errorf("%d redriven", n)
		}
		return err
	}); err != nil {
		return said, err
	}
	err = until(ctx, func() error {
		list, err := s.client.Jobs(ctx, 10)
		if err != nil {
			return err
		}
		for _, j := range list.Jobs {
			if j.Name == "redriven" && j.State == apitypes.JobSucceeded {
				said += fmt.Sprintf("\ndlq redrive: %d letters; job %s %s", n, j.ID, j.State)
				return nil
			}
		}
		return errors.New("the redriven job has not succeeded")
	})
	return said, err
}

// garble sends an event about a new object in the DAG bucket without the object's key.
func (s *Story) garble(ctx context.Context) error {
	out, err := eventbridge.NewFromConfig(s.World.Config).PutEvents(ctx,
		&eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
			Source: aws.String("aws.s3"), DetailType: aws.String("Object Created"),
			Detail: aws.String(fmt.Sprintf(`{"bucket":{"name":%q}}`, s.World.Bucket("dags"))),
		}}})
	if err == nil && out.FailedEntryCount > 0 {
		err = errors.New("the event was rejected")
	}
	return err
}

// bury adds the event of a job to the dead letters, as if it had been given up, and shows it.
func (s *Story) bury(ctx context.Context) error {
	bucket, key := s.World.Bucket("dags"), "kept/later.yaml"
	small := "apiVersion: tradewind/v1\nname: redriven\ntasks:\n  only:\n    run: echo again\n" +
		"    resources: {cpus: 2+, cloud: aws, region: us-east-1}\n    time: 5m\n"
	if err := s.put(ctx, bucket, key, []byte(small)); err != nil {
		return err
	}
	body, err := events.New(givenUp, "tradewind/rehearsal", time.Now().UTC(),
		events.ObjectCreated{Bucket: bucket, Key: key, Size: int64(len(small))}).MarshalJSON()
	if err != nil {
		return err
	}
	if err := s.send(ctx, events.FnSubmit+"-dlq", string(body)); err != nil {
		return err
	}
	return until(ctx, func() error {
		var one apitypes.DeadLetterList
		if err := s.cliJSON(ctx, &one, "dlq", "show", givenUp, "--queue", events.FnSubmit); err != nil {
			return err
		}
		if n := len(one.DeadLetters); n != 1 || !strings.Contains(string(one.DeadLetters[0].Event), key) {
			return fmt.Errorf("dlq show: %d letters with this ID", n)
		}
		return nil
	})
}

// send sends a message to one of the deployment's queues.
func (s *Story) send(ctx context.Context, queue, body string) error {
	url := s.World.QueueURL(s.World.Stack.Name + "-" + queue)
	_, err := sqs.NewFromConfig(s.World.Config).SendMessage(ctx,
		&sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	return err
}

// asleep waits until all machines have ended, and schedules and polling are off.
func (s *Story) asleep(ctx context.Context) (string, error) {
	s.World.Calm() // no failures while the deployment goes to sleep
	err := until(ctx, func() error { return s.sleeping(ctx) })
	return fmt.Sprintf("%d machines were started, none runs; schedules are off, no queue is polled",
		s.World.Hypervisor.Count()), err
}

// sleeping returns an error that names everything that is still running.
func (s *Story) sleeping(ctx context.Context) error {
	w := s.World
	if left := w.Hypervisor.Running(); len(left) > 0 {
		return fmt.Errorf("machines %v run", left)
	}
	for _, region := range w.Regions() {
		out, err := ec2.NewFromConfig(w.In(region)).DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		if err != nil {
			return err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if i.State.Name != types.InstanceStateNameTerminated {
					return fmt.Errorf("%s in %s is %s", aws.ToString(i.InstanceId), region, i.State.Name)
				}
			}
		}
	}
	for _, name := range []string{events.FnTick, events.FnReconcile} {
		s, err := scheduler.NewFromConfig(w.Config).GetSchedule(ctx,
			&scheduler.GetScheduleInput{GroupName: &w.Stack.Name, Name: &name})
		if err != nil {
			return err
		}
		if s.State != "DISABLED" {
			return fmt.Errorf("schedule %s is %s", name, s.State)
		}
	}
	var polled []string
	for _, m := range w.Mappings {
		if on, _ := m.Enabled(); on && !w.Streams(m) {
			polled = append(polled, m.Function)
		}
	}
	if len(polled) > 0 {
		return fmt.Errorf("queues are polled for %v", polled)
	}
	return nil
}

// machineOf returns the machine of a cluster, by its tag.
func (s *Story) machineOf(ctx context.Context, cluster string) (string, error) {
	w := s.World
	out, err := ec2.NewFromConfig(w.Config).DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:tradewind:cluster"), Values: []string{cluster}},
	}})
	if err != nil {
		return "", err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return aws.ToString(i.InstanceId), nil
		}
	}
	return "", fmt.Errorf("rehearsal: %s has no machine", cluster)
}
