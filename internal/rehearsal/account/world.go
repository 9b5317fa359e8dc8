package account

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// Options configures a rehearsal.
type Options struct {
	Assembly string // folder with the output of infra/
	Assets   string // dist/
	Arch     string // GOARCH of this machine
	Dir      string // for machines' disks and logs
	Seed     uint64
	// Speed is the factor by which schedules run, and messages become visible again, faster than in a deployment.
	// Otherwise a message of a killed function would take minutes.
	Speed float64
	// Chaos kills functions at random moments and makes every tenth call fail, after the deployment.
	Chaos bool
	// Environment returns additional variables of a function, by its short name; nil: none.
	Environment func(function string) map[string]string
	// Trace records the work of functions over time; nil records nothing.
	Trace *Trace
	Log   *slog.Logger
}

// World is an emulated account with a deployment.
type World struct {
	Options
	Template *Template
	Stack    deploy.Stack
	Further  []deploy.Stack // in the other regions where machines are bought
	Count    *Counter
	Moves    *Moves
	Proxy    *Proxy
	Rights   *Rights
	API      string // its base URL
	// Reports is closed when the bucket for job files begins to send events.
	Reports <-chan struct{}

	Config     aws.Config // of the user, for the emulator
	Proxied    aws.Config // the same, through the proxy
	User       aws.Credentials
	Functions  map[string]*sandbox.Function
	Mappings   []*Mapping
	Hypervisor *Hypervisor

	authority *imdstest.Authority // signs machines' identities
	emulated  *emulated
	front     string // endpoint of both emulators
	clockwork *clockwork
	servers   []*http.Server
	logs      []*os.File
	stop      context.CancelFunc
	life      context.Context //nolint:containedctx // of everything that the world starts; ends with Close
	wg        sync.WaitGroup
	running   running
	kills     int
	killsMu   sync.Mutex
}

// mostSandboxes is the maximum number of processes of one function, because this is one computer.
const mostSandboxes = 4

// Open starts the emulators, deploys to them, and connects everything that is deployed. Close ends it.
func Open(ctx context.Context, o Options) (_ *World, err error) {
	w := &World{Options: o, Count: &Counter{}, Functions: map[string]*sandbox.Function{}}
	ctx, w.stop = context.WithCancel(ctx)
	w.life = ctx
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if w.emulated, err = startEmulators(); err != nil {
		return nil, err
	}
	if w.authority, err = imdstest.NewAuthority(); err != nil {
		return nil, err
	}
	front, err := front(w.emulated.moto.Endpoint, w.emulated.local.Endpoint, o.Log)
	if err != nil {
		return nil, err
	}
	if w.front, err = w.serve(ctx, front); err != nil {
		return nil, err
	}
	w.Config = emulator.Config(w.front)
	w.User = aws.Credentials{AccessKeyID: "AKIAUSER", SecretAccessKey: "the-users-secret-key"}
	a, err := deploy.ReadAssembly(o.Assembly)
	if err != nil {
		return nil, err
	}
	w.Stack, w.Further = a.Stacks[0], a.Stacks[1:]
	if w.Template, err = readTemplate(w.Stack); err != nil {
		return nil, err
	}
	if err := w.deploy(ctx); err != nil {
		return nil, err
	}
	if w.Trace != nil {
		w.Trace.deployment = w.Stack.Name
	}
	w.Rights = w.Template.rights()
	w.Proxy = newProxy(front, w.Count, w.Rights, o.Seed, o.Log)
	if w.Mappings, err = w.Template.mappings(); err != nil {
		return nil, err
	}
	for _, m := range w.Mappings {
		m.switching = time.Duration(float64(switching) / w.Speed)
	}
	w.Moves = newMoves(w.Buckets())
	w.Proxy.mappings, w.Proxy.moves, w.Proxy.trace = w.Mappings, w.Moves, w.Trace
	endpoint, err := w.serve(ctx, w.Proxy)
	if err != nil {
		return nil, err
	}
	w.Proxied = emulator.Config(endpoint)
	return w, w.connect(ctx, endpoint)
}

// deploy deploys the template with the emulator's CloudFormation and the code of `tradewind deploy`.
func (w *World) deploy(ctx context.Context) error {
	target, err := deploy.Open(ctx, w.Config)
	if err != nil {
		return err
	}
	target.Look = 50 * time.Millisecond
	stream, err := w.Template.tables(ctx, dynamodb.NewFromConfig(w.Config))
	if err != nil {
		return err
	}
	w.Template.resolve(stream)
	stack, err := w.Template.writeFor(w.Stack, w.Dir)
	if err != nil {
		return err
	}
	if _, err := target.Deploy(ctx, stack, w.Assets); err != nil {
		return err
	}
	if err := w.deployFurther(ctx, target); err != nil {
		return err
	}
	// The queues must exist before anything is put into a bucket.
	for _, name := range w.Template.doors() {
		if _, err := sqs.NewFromConfig(w.Config).CreateQueue(ctx,
			&sqs.CreateQueueInput{QueueName: aws.String(shadowQueue(name))}); err != nil {
			return err
		}
	}
	w.clockwork = &clockwork{
		scheduler: scheduler.NewFromConfig(w.Config), sqs: sqs.NewFromConfig(w.Config), group: w.Stack.Name,
		speed: w.Speed, log: w.Log, invoke: w.invoke,
	}
	if err := w.clockwork.install(ctx, w.Template); err != nil {
		return err
	}
	reports := make(chan struct{})
	w.Reports = reports
	w.wg.Go(func() {
		_ = clock.Pause(w.life, time.Duration(float64(bucketReports)/w.Speed))
		if err := w.notify(w.life); err != nil {
			w.Log.Error("bucket events", "err", err)
		}
		close(reports)
	})
	return w.hasten(ctx)
}

// notify makes buckets send events for new objects to EventBridge if the template says so, because moto's
// CloudFormation does not.
func (w *World) notify(ctx context.Context) error {
	client := s3.NewFromConfig(w.Config, func(o *s3.Options) { o.UsePathStyle = true })
	for _, b := range w.Template.Of("AWS::S3::Bucket") {
		if b.at("NotificationConfiguration", "EventBridgeConfiguration", "EventBridgeEnabled") != true {
			continue
		}
		_, err := client.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{
			Bucket: aws.String(b.Text("BucketName")), NotificationConfiguration: &s3types.NotificationConfiguration{
				EventBridgeConfiguration: &s3types.EventBridgeConfiguration{},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shortest is the minimum visibility time-out, seconds: a batch takes only a few seconds here.
const shortest = 8

// hasten makes messages visible again sooner than deployed.
func (w *World) hasten(ctx context.Context) error {
	for _, q := range w.Template.Of("AWS::SQS::Queue") {
		v := q.number("VisibilityTimeout")
		if v == 0 {
			continue
		}
		url := w.QueueURL(q.Text("QueueName"))
		short := strconv.Itoa(max(int(float64(v)/w.Speed/2), shortest))
		_, err := w.clockwork.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
			QueueUrl: &url, Attributes: map[string]string{string(types.QueueAttributeNameVisibilityTimeout): short},
		})
		if err != nil {
			return fmt.Errorf("rehearsal: queue %s: %w", url, err)
		}
	}
	return nil
}

// QueueURL returns the emulator's URL of a queue.
func (w *World) QueueURL(name string) string { return w.front + "/" + account + "/" + name }

// serve starts a server on loopback and returns its URL.
func (w *World) serve(ctx context.Context, h http.Handler) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(w.Log.Handler(), slog.LevelDebug)}
	w.servers = append(w.servers, s)
	go func() { _ = s.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String(), nil
}

// connect creates the functions and their event sources.
func (w *World) connect(ctx context.Context, endpoint string) error {
	g := &gateway{keys: w.User, count: w.Count, moves: w.Moves, log: w.Log}
	var err error
	if g.routes, err = w.Template.routes(); err != nil {
		return err
	}
	if w.API, err = w.serve(ctx, g); err != nil {
		return err
	}
	for _, f := range w.Template.Of("AWS::Lambda::Function") {
		if err := w.function(f, endpoint); err != nil {
			return err
		}
	}
	g.function, w.Proxy.functions = w.Functions[w.Stack.Name+"-api"], w.Functions
	g.authorizer = w.Functions[w.Stack.Name+"-authorizer"]
	for _, m := range w.Mappings {
		if err := w.feed(ctx, m); err != nil {
			return err
		}
	}
	for _, name := range w.Template.doors() {
		d, err := w.open(name)
		if err != nil {
			return err
		}
		w.wg.Go(func() { d.run(ctx) })
	}
	for _, s := range w.Template.Of("AWS::Scheduler::Schedule") {
		w.wg.Go(func() { w.clockwork.run(ctx, s.Text("Name"), s.Text("ScheduleExpression")) })
	}
	w.Hypervisor = &Hypervisor{
		authority: w.authority, ended: w.Proxy.Ended, placed: w.Moves.Placed, gone: w.Proxy.quotas.release,
		dir: filepath.Join(w.Dir, "machines"), log: w.Log, machines: map[string]*machine{},
	}
	for _, region := range w.Regions() {
		cfg := w.In(region)
		w.Hypervisor.regions = append(w.Hypervisor.regions,
			&regional{name: region, ec2: ec2.NewFromConfig(cfg), events: eventbridge.NewFromConfig(cfg)})
	}
	w.wg.Go(func() { w.Hypervisor.run(ctx) })
	if w.Chaos {
		w.Proxy.FailCalls(0.1)
		w.wg.Go(func() { w.killAtRandom(ctx) })
	}
	return nil
}

// function creates the host of a deployed function.
func (w *World) function(f Resource, endpoint string) error {
	name := f.Text("FunctionName")
	short := name[len(w.Stack.Name)+1:]
	path := filepath.Join(w.Dir, "logs", short+".log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	log, err := os.Create(path) //nolint:gosec // in the rehearsal's own folder
	if err != nil {
		return err
	}
	w.logs = append(w.logs, log)
	env := map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": functionKey(name), "AWS_SECRET_ACCESS_KEY": "rehearsal",
		"AWS_EC2_METADATA_DISABLED": "true",
	}
	vars, _ := f.at("Environment", "Variables").(map[string]any)
	for k, v := range vars {
		env[k] = fmt.Sprint(v)
	}
	env["TRADEWIND_API"] = w.API // the deployed host name does not exist here
	env["TRADEWIND_MACHINE_CERTIFICATES"] = w.authority.Certificates()
	if w.Environment != nil {
		maps.Copy(env, w.Environment(short))
	}
	timeout := f.number("Timeout")
	w.Functions[name] = &sandbox.Function{
		Name: name, ARN: fmt.Sprintf(arnForms["AWS::Lambda::Function"], name), Region: Region,
		Binary: filepath.Join(w.Assets, "lambda", short, "bootstrap"), Memory: f.number("MemorySize"),
		MayLoop: f.Text("RecursiveLoop") == "Allow",
		Timeout: time.Duration(timeout) * time.Second, Limit: mostSandboxes, Env: env, Log: &locked{w: log},
		Admit: w.running.admit,
		Seen: func(began time.Time, cold time.Duration) {
			w.Trace.add(Span{Kind: InFunction, Function: short, Begin: began, End: time.Now()})
			if cold > 0 {
				w.Trace.add(Span{Kind: Starting, Function: short, Begin: began, End: began.Add(cold)})
			}
		},
	}
	return nil
}

// locked is a log for the output of several processes.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (w *World) feed(ctx context.Context, m *Mapping) error {
	f := w.Functions[m.Function]
	if f == nil {
		return fmt.Errorf("rehearsal: mapping %s is for %s, which is not deployed", m.ID, m.Function)
	}
	if m.Source == w.Template.stream {
		s := &streamFeed{mapping: m, function: f, cfg: w.Config, log: w.Log,
			dead: func(ctx context.Context, arn string, body []byte) {
				url, text := w.QueueURL(queueName(arn)), string(body)
				if _, err := w.clockwork.sqs.SendMessage(ctx,
					&sqs.SendMessageInput{QueueUrl: &url, MessageBody: &text}); err != nil {
					w.Log.Warn("on-failure destination", "err", err)
				}
			}}
		w.wg.Go(func() { s.run(ctx) })
		return nil
	}
	m.Parallel = min(max(m.Parallel, 1), mostSandboxes)
	q := &queueFeed{mapping: m, function: f, sqs: sqs.NewFromConfig(w.Config), url: w.QueueURL(queueName(m.Source)),
		dead: w.deadQueue(m.Source), count: w.Count, log: w.Log}
	w.wg.Go(func() { q.run(ctx) })
	return nil
}

// killAtRandom kills functions at random moments: four times a second it picks one of all functions, and kills it if
// it is working. So a function is killed more often the longer it takes, and those that wait for a cloud can still
// finish.
func (w *World) killAtRandom(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Seed, 2)) //nolint:gosec // no secret
	var names []string
	for name := range w.Functions {
		names = append(names, name)
	}
	slices.Sort(names)
	for ctx.Err() == nil {
		_ = clock.Pause(ctx, time.Duration(100+r.IntN(300))*time.Millisecond)
		name := names[r.IntN(len(names))]
		if !w.Functions[name].KillOne(r.IntN) {
			continue
		}
		w.killsMu.Lock()
		w.kills++
		w.killsMu.Unlock()
		w.Log.Info("killed", "function", name)
	}
}

// Kills returns how many working functions were killed.
func (w *World) Kills() int {
	w.killsMu.Lock()
	defer w.killsMu.Unlock()
	return w.kills
}

// Calm stops making calls fail.
func (w *World) Calm() { w.Proxy.FailCalls(0) }

// Emulator returns the emulators' endpoint, without the proxy.
func (w *World) Emulator() string { return w.front }

// Usage returns the usage of each function.
func (w *World) Usage() map[string]sandbox.Usage {
	out := map[string]sandbox.Usage{}
	for name, f := range w.Functions {
		out[name] = f.Usage()
	}
	return out
}

// Logged returns everything that the functions and machines have printed.
func (w *World) Logged() []byte {
	var all bytes.Buffer
	paths, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	more, _ := filepath.Glob(filepath.Join(w.Dir, "machines", "*", "console.log"))
	for _, p := range append(paths, more...) {
		raw, err := os.ReadFile(p) //nolint:gosec // in the rehearsal's own folder
		if err == nil {
			all.Write(raw)
		}
	}
	return all.Bytes()
}

// Close ends every process that was started.
func (w *World) Close() {
	w.stop()
	w.wg.Wait()
	for _, s := range w.servers {
		_ = s.Close()
	}
	for _, f := range w.Functions {
		f.Close()
	}
	if w.emulated != nil {
		w.emulated.stop()
	}
	for _, l := range w.logs {
		_ = l.Close()
	}
}
