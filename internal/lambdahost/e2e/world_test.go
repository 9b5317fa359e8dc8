package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/attest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/broker"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/internal/bus/aws/awstest"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/apihost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/hooks"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs/logbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/planning"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	if os.Getenv(agent.EnvEndpoint) != "" { // the agent of a booted machine
		os.Exit(agent.Main(os.Environ(), "test", pool.RunWorker))
	}
	os.Exit(m.Run())
}

// handler wires a function as its main function does.
func handler(s *lambdahost.Sandbox) (h *lambdahost.Handler, err error) {
	others := far.New(s)
	h, ports := &lambdahost.Handler{Sandbox: s}, s.Ports()
	switch s.Function {
	case events.FnSubmit:
		own := objects.NewDAGs(s)
		files := dagbucket.Buckets{Files: others.DAGBuckets(), Other: own}
		ports.Objects, ports.Accepted = files, files.Accepted(own.Accepted, s.Log)
		ports.Packs, ports.Data = objects.NewDepot(s), data.New(s, others)
		ports.Secrets = keys.Secrets(s, keys.Open(s), others)
		h.After = activity.NewAWS(s).On
	case events.FnOptimize:
		ports.Planner = planning.New(s)
	case events.FnSchedule:
		ports.Moves, err = egress.Default()
		ports.Policy = lambdahost.FollowPolicy(s)
	case events.FnProvision:
		ports.Clouds, err = clouds.All(s, others)
		ports.Services = others.Services()
		ports.Tokens, ports.Data = keys.Open(s).Mint, data.New(s, others)
	case events.FnInterrupt:
		h.Notices, err = clouds.Notices(s)
	case events.FnReconcile:
		ports.Clouds, err = clouds.All(s, others)
		ports.Services = others.Services()
		ports.Data = data.New(s, others)
		ports.Logs = logs.Remover{Store: s.Store, Objects: logbucket.Bucket{Client: s.S3(), Name: s.Env.WorkBucket}}
	case events.FnHook:
		ports.Hook = hooks.New(s, others.DAGBuckets(), far.New(s).Announcer(), broker.NewViews(s.Config, ports).JobDetail)
	}
	if err != nil {
		return nil, err
	}
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	h.Functions = b.Functions
	if s.Function == events.FnReconcile {
		idle := func(ctx context.Context) (bool, error) { return s.Idle(ctx, b.Functions, ports.Clouds, ports.Services) }
		switches := activity.NewAWS(s)
		switches.Expires = b.Functions.Expires
		h.After = func(ctx context.Context) error {
			return errors.Join(s.PublishLeft(ctx), activity.Settle(ctx, switches, idle, s.Log))
		}
	}
	return h, nil
}

// gate wires the function api as its main function does.
func gate(s *lambdahost.Sandbox) (*gateway.Gateway, error) {
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	others, ring, packs := far.New(s), keys.Open(s), objects.NewDepot(s)
	stores := data.New(s, others)
	ports := s.Ports()
	ports.Moves, ports.Policy, ports.Packs, ports.Data = moves, lambdahost.FollowPolicy(s), packs, stores
	ports.Tokens, ports.Secrets = ring.Mint, keys.Secrets(s, ring, others)
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	return apihost.New(s, b, apihost.Adapters{
		Ring: ring, Data: stores, Packs: packs, Others: others, Wake: activity.NewAWS(s).On,
	})
}

// world is a deployment on emulators. The tests simulate Lambda.
type world struct {
	*testing.T
	name   string
	cfg    aws.Config
	front  *lambdahost.Sandbox // of the function api
	relays *lambdahost.Sandbox
	hosts  map[string]*lambdahost.Handler
	gates  []*gateway.Gateway // instances of the function; each has its own memory
	calls  atomic.Int64
	api    *httptest.Server
	table  *dynamodb.Client
	queues *sqs.Client
	log    *lockedBuffer
	agents sync.WaitGroup
	zones  map[string]string // machines that were seen, by ID
	// authority signs the identities of machines.
	authority *imdstest.Authority
	more      []string // additional variables of the functions, NAME=VALUE
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func deploy(t *testing.T) *world { return deployWith(t, nil, nil) }

// deployWith is deploy with variables of the environment that override those of the emulators, additional variables of
// the functions, and changes to all sandboxes.
func deployWith(t *testing.T, environ, functions []string, change ...func(*lambdahost.Sandbox)) *world {
	t.Helper()
	moto, local := emulator.Moto(t), emulator.DynamoDBLocal(t)
	for _, v := range append(emulator.Env(moto), environ...) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", local)
	w := &world{T: t, name: "tw" + strconv.FormatInt(time.Now().UnixNano(), 36), hosts: map[string]*lambdahost.Handler{}, log: &lockedBuffer{}, zones: map[string]string{},
		more: functions}
	ctx := t.Context()
	var err error
	if w.cfg, err = config.LoadDefaultConfig(ctx); err != nil {
		t.Fatal(err)
	}
	if w.authority, err = imdstest.NewAuthority(); err != nil {
		t.Fatal(err)
	}
	w.api = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.api.Close)
	w.provision(ctx)
	env, err := lambdahost.LoadEnv(func(name string) string { return w.environment()[name] })
	if err != nil {
		t.Fatal(err)
	}
	open := func(fn string) *lambdahost.Sandbox {
		s, err := lambdahost.Open(fn, env, w.cfg, w.log)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range change {
			c(s)
		}
		return s
	}
	for _, fn := range events.Functions() {
		if w.hosts[fn], err = handler(open(fn)); err != nil {
			t.Fatal(err)
		}
	}
	w.relays, w.front = open(lambdahost.Relay), open(apihost.Name)
	for range 4 {
		g, err := gate(w.front)
		if err != nil {
			t.Fatal(err)
		}
		w.gates = append(w.gates, g)
	}
	return w
}

func (w *world) environment() map[string]string {
	env := map[string]string{
		"TRADEWIND_DEPLOYMENT": w.name, "TRADEWIND_TABLE": w.name, "TRADEWIND_BUS": w.name, "TRADEWIND_QUEUE_PREFIX": w.name + "-",
		"TRADEWIND_DAG_BUCKET": w.name + "-dags", "TRADEWIND_WORK_BUCKET": w.name + "-work", "TRADEWIND_API": w.api.URL,
		"TRADEWIND_SECRETS": "/" + w.name + "/secrets/", "TRADEWIND_TOKEN_PARAMETER": "/" + w.name + "/token-key", "TRADEWIND_AGENT_KEY": "agent/" + digest(program()) + "/tradewind-agent",
		lambdahost.EnvRegions: "us-east-1", "TRADEWIND_SCHEDULES": "reconcile", lambdahost.EnvExpirySchedule: "expire", "TRADEWIND_MACHINE_CERTIFICATES": w.authority.Certificates(),
	}
	for _, entry := range w.more {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// provision creates the resources of the template that these tests need.
func (w *world) provision(ctx context.Context) {
	w.Helper()
	must := func(err error) {
		if awstest.Failed(err) {
			w.Fatal(err)
		}
	}
	must(dynamo.CreateTable(ctx, w.cfg, w.name))
	_, err := awstest.Provision(ctx, w.cfg, busaws.Config{
		EventBus: w.name, QueuePrefix: w.name + "-", Bucket: w.name + "-work", Queues: lambdahost.QueueRules(), Route: events.Routes(),
	})
	must(err)
	_, err = w.s3().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(w.name + "-dags")})
	must(err)
	times := scheduler.NewFromConfig(w.cfg)
	_, err = times.CreateScheduleGroup(ctx, &scheduler.CreateScheduleGroupInput{Name: &w.name})
	must(err)
	for name, rate := range map[string]string{"reconcile": "rate(1 minute)", "expire": "rate(1 day)"} {
		_, err = times.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
			Name: &name, GroupName: &w.name, ScheduleExpression: &rate, State: schedulertypes.ScheduleStateDisabled,
			FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
			Target:             &schedulertypes.Target{Arn: aws.String("arn:aws:sqs:us-east-1:123456789012:q"), RoleArn: aws.String("arn:aws:iam::123456789012:role/r"), Input: aws.String("{}")},
		})
		must(err)
	}
	w.table, w.queues = dynamodb.NewFromConfig(w.cfg), sqs.NewFromConfig(w.cfg)
}

func (w *world) s3() *s3.Client {
	return s3.NewFromConfig(w.cfg, func(o *s3.Options) { o.UsePathStyle = true })
}

func (w *world) scheduleState(ctx context.Context, name string) schedulertypes.ScheduleState {
	w.Helper()
	out, err := scheduler.NewFromConfig(w.cfg).GetSchedule(ctx, &scheduler.GetScheduleInput{Name: &name, GroupName: &w.name})
	if err != nil {
		w.Fatal(err)
	}
	return out.State
}

// serve simulates API Gateway: the paths of agents are open, all others need a signature. It does not check signatures.
func (w *world) serve(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in := awsevents.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Body: string(body), Headers: map[string]string{}}
	for name := range r.Header {
		in.Headers[strings.ToLower(name)] = strings.Join(r.Header.Values(name), ",")
	}
	in.RequestContext.DomainName, in.RequestContext.Stage = r.Host, "$default"
	in.RequestContext.HTTP.Method = r.Method
	if !strings.HasPrefix(r.URL.Path, gateway.AgentPaths) && strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256") {
		in.RequestContext.Authorizer = &awsevents.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			IAM: &awsevents.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: "arn:aws:iam::123456789012:user/ada"},
		}
	}
	answer, err := w.gates[int(w.calls.Add(1))%len(w.gates)].Serve(r.Context(), in)
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	for name, v := range answer.Headers {
		out.Header().Set(name, v)
	}
	out.WriteHeader(answer.StatusCode)
	raw := []byte(answer.Body)
	if answer.IsBase64Encoded { // as large responses are: compressed
		raw, _ = base64.StdEncoding.DecodeString(answer.Body)
	}
	_, _ = out.Write(raw)
}

// round simulates Lambda once for the stream and every queue, and returns the number of messages.
func (w *world) round(ctx context.Context) int {
	w.Helper()
	n := w.relay(ctx)
	for _, fn := range events.Functions() {
		n += w.poll(ctx, fn)
	}
	return n
}

// relay passes to the relay the records of the outbox that a stream would contain.
func (w *world) relay(ctx context.Context) int {
	w.Helper()
	var batch awsevents.DynamoDBEvent
	for shard := range dynamo.Shards {
		out, err := w.table.Query(ctx, &dynamodb.QueryInput{
			TableName: &w.name, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true),
			ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: dynamo.OutboxPrefix + strconv.Itoa(shard)}},
		})
		if err != nil {
			w.Fatal(err)
		}
		for i, item := range out.Items {
			r := awsevents.DynamoDBEventRecord{EventName: "INSERT"}
			r.Change.SequenceNumber = fmt.Sprint(shard, "-", i)
			r.Change.NewImage = map[string]awsevents.DynamoDBAttributeValue{}
			for name, v := range item {
				switch v := v.(type) {
				case *types.AttributeValueMemberS:
					r.Change.NewImage[name] = awsevents.NewStringAttribute(v.Value)
				case *types.AttributeValueMemberB:
					r.Change.NewImage[name] = awsevents.NewBinaryAttribute(v.Value)
				case *types.AttributeValueMemberN:
					r.Change.NewImage[name] = awsevents.NewNumberAttribute(v.Value)
				}
			}
			batch.Records = append(batch.Records, r)
		}
	}
	if len(batch.Records) == 0 {
		return 0
	}
	if out, err := w.relays.HandleStream(ctx, batch); err != nil || len(out.BatchItemFailures) > 0 {
		w.Fatalf("relay: %+v %v", out, err)
	}
	return len(batch.Records)
}

func (w *world) queueURL(ctx context.Context, fn string) *string {
	w.Helper()
	out, err := w.queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(w.name + "-" + fn)})
	if err != nil {
		w.Fatal(err)
	}
	return out.QueueUrl
}

// poll takes one batch from a queue, as Lambda does, and deletes the messages that were not reported as failed.
func (w *world) poll(ctx context.Context, fn string) int {
	w.Helper()
	queue := w.queueURL(ctx, fn)
	out, err := w.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"ApproximateReceiveCount"},
	})
	if err != nil {
		w.Fatal(err)
	}
	if len(out.Messages) == 0 {
		return 0
	}
	var batch awsevents.SQSEvent
	for _, m := range out.Messages {
		batch.Records = append(batch.Records, awsevents.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Attributes: m.Attributes,
		})
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := w.hosts[fn].HandleSQS(limited, batch)
	if err != nil {
		w.Fatal(err)
	}
	failed := map[string]bool{}
	for _, f := range answer.BatchItemFailures {
		failed[f.ItemIdentifier] = true
	}
	for _, m := range batch.Records {
		if !failed[m.MessageId] {
			_, _ = w.queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: aws.String(m.ReceiptHandle)})
		}
	}
	return len(batch.Records)
}

// drop puts a message of AWS into a queue.
func (w *world) drop(ctx context.Context, fn string, message any) {
	w.Helper()
	body, err := json.Marshal(message)
	if err == nil {
		_, err = w.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: w.queueURL(ctx, fn), MessageBody: aws.String(string(body))})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// account is moto's.
const account = "123456789012"

// hangs is the time after which a test counts as hanging. On a busy machine a test may take many times as long as
// alone.
const hangs = 15 * time.Minute

// metadata is the metadata service of a machine.
func (w *world) metadata(id string) *imdstest.Machine {
	region, zone := w.zone(id)
	return &imdstest.Machine{ID: id, Address: "127.0.0.1", Region: region, Zone: zone, Account: account, Signer: w.authority}
}

// proves requests proofs from a metadata service, as an agent does.
func (w *world) proves(m *imdstest.Machine) attest.Func {
	w.Helper()
	service := httptest.NewServer(m)
	w.Cleanup(service.Close)
	f, err := attest.New(attest.Config{Cloud: "aws", URL: service.URL})
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// machine starts the agent of a machine with the token of its launch. A machine without an ID is a pool machine.
func (w *world) machine(ctx context.Context, id, token string) {
	w.Helper()
	dir := w.TempDir()
	var proof attest.Func
	if id != "" {
		proof = w.proves(w.metadata(id))
	}
	w.agents.Go(func() {
		_ = agent.Run(ctx, agent.Config{
			Endpoint: w.api.URL, Token: token, Dir: dir, Address: "127.0.0.1", Environ: os.Environ(), Prove: proof,
		}) // an agent ends when its attempt has ended
	})
}

// plain returns user data as the machine sees it: it may be compressed.
func plain(t *testing.T, raw []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
