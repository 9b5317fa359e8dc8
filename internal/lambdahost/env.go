package lambdahost

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
)

// The environment of every function, as infra/ sets it.
const (
	EnvDeployment  = "TRADEWIND_DEPLOYMENT"      // name, the prefix of everything
	EnvTable       = "TRADEWIND_TABLE"           // DynamoDB table
	EnvBus         = "TRADEWIND_BUS"             // event bus
	EnvQueuePrefix = "TRADEWIND_QUEUE_PREFIX"    // of the functions' queues: tradewind-
	EnvQueueURLs   = "TRADEWIND_QUEUE_URLS"      // prefix of the URLs of all queues
	EnvDAGBucket   = "TRADEWIND_DAG_BUCKET"      // where users upload DAG files
	EnvWorkBucket  = "TRADEWIND_WORK_BUCKET"     // outputs, checkpoints, logs, the agent, large payloads
	EnvAPI         = "TRADEWIND_API"             // base URL at which agents reach the API
	EnvTokenKey    = "TRADEWIND_TOKEN_PARAMETER" //nolint:gosec // the parameter's name, not its value
	EnvAgentKey    = "TRADEWIND_AGENT_KEY"       // object keys of the agents: amd64=agent/<sha256>/tradewind,arm64=…
	// ARN of the role whose credentials are lent for mounts; optional, without it nothing is lent
	EnvMountsRole = "TRADEWIND_MOUNTS_ROLE"
	// object keys of rclone: amd64=agent/<sha256>/rclone,arm64=…; optional
	EnvRcloneKey = "TRADEWIND_RCLONE_KEY"
	EnvSchedules = "TRADEWIND_SCHEDULES" // schedules switched on while work is open, comma-separated
	// schedule that runs reconcile daily while no work is open and finished jobs are kept that will expire; optional
	EnvExpirySchedule = "TRADEWIND_EXPIRY_SCHEDULE"
	// functions whose queues are polled only while work is open, comma-separated; optional
	EnvMappings = "TRADEWIND_MAPPINGS"
	EnvClouds   = "TRADEWIND_CLOUDS" // clouds to plan and buy on, comma-separated; optional, aws
	// EnvServices are the managed services that the deployment buys for Spark tasks, comma-separated; optional, none.
	EnvServices = "TRADEWIND_SERVICES"
	// regions of other clouds to buy in, CLOUD:REGION, comma-separated; optional, none
	EnvCloudRegions = "TRADEWIND_CLOUD_REGIONS"
	// machines never to buy, CLOUD/TYPE or a prefix of a type, comma-separated; optional
	EnvWithout = "TRADEWIND_WITHOUT"
	EnvRegions = "TRADEWIND_REGIONS" // EC2 regions to buy in, comma-separated; optional, the deployment's own
	EnvSecrets = "TRADEWIND_SECRETS" // paths below which jobs may refer to secrets, comma-separated; optional, none
	// clouds whose functions fetch secrets for jobs, comma-separated; optional, none
	EnvSecretClouds = "TRADEWIND_SECRET_CLOUDS"
	// clouds that push notices to the API, which their functions read, comma-separated; optional, none
	EnvPushClouds = "TRADEWIND_PUSH_CLOUDS"
	// buckets of other clouds whose files are also jobs, CLOUD=URL, comma-separated; optional, none
	EnvDAGBuckets = "TRADEWIND_DAG_BUCKETS"
	// buckets for outputs: REGION=BUCKET for other regions, CLOUD:REGION=URL for other clouds; optional
	EnvStores = "TRADEWIND_STORES"
	EnvTopic  = "TRADEWIND_TOPIC" // SNS topic for news; optional
	// cloud whose function publishes on the topics that jobs name; optional, none
	EnvTopicCloud = "TRADEWIND_TOPIC_CLOUD"
	EnvWebhook    = "TRADEWIND_WEBHOOK" // URL to which news are posted; optional
	// EnvMailFrom is the sender of e-mail that jobs ask for, verified in SES; optional.
	EnvMailFrom = "TRADEWIND_MAIL_FROM"
	// EnvTraceHeaders is the SSM parameter with the headers for the collector that OpenTelemetry's own variables name;
	// optional.
	EnvTraceHeaders = "TRADEWIND_TRACE_HEADERS"
	// event types to put on the bus for other programs, comma-separated; optional, none
	EnvAnnounce = "TRADEWIND_ANNOUNCE"
	// EnvAgentsCall is how often working agents call; optional, 5m. With a shorter interval visits connect sooner, but
	// calls cost more.
	EnvAgentsCall = "TRADEWIND_AGENTS_CALL"
	// EnvKeep is how long finished jobs are kept whose file and queues say nothing, as in a job file. Without it
	// they are kept for ever.
	EnvKeep = "TRADEWIND_KEEP"
	// EnvLimitMachines and EnvLimitUSD are how many machines the deployment may have at a time, and what they may cost
	// in an hour, in USD; optional, no limit.
	EnvLimitMachines = "TRADEWIND_LIMIT_MACHINES"
	EnvLimitUSD      = "TRADEWIND_LIMIT_USD_PER_HOUR"
	// EnvPolicy is the key of the sessions' policy in the work bucket; optional, the default policy.
	EnvPolicy = "TRADEWIND_POLICY"
	// EnvProof says whether machines must prove their identity: required or optional. The default is required.
	EnvProof = "TRADEWIND_MACHINE_PROOF"
	// EnvProofs replaces the keys that check proofs of other clouds: gcp=URL of a key set and azure=certificates (PEM),
	// comma-separated; optional, for emulators.
	EnvProofs = "TRADEWIND_MACHINE_KEYS"
	// EnvCertificates replaces AWS's certificates (PEM) for checking proofs; optional, for emulators.
	EnvCertificates = "TRADEWIND_MACHINE_CERTIFICATES"
	EnvLogLevel     = "TRADEWIND_LOG_LEVEL" // debug, info, warn, error; optional, info
)

// Env is the environment of a function, read once.
type Env struct {
	Deployment  string
	Table       string
	Bus         string
	QueuePrefix string
	QueueURLs   string
	DAGBucket   string
	WorkBucket  string
	API         string // without a slash at its end
	TokenKey    string
	AgentKey    string
	MountsRole  string
	RcloneKey   []string
	Schedules   []string
	// ExpirySchedule is the name of a schedule.
	ExpirySchedule string
	Mappings       []string
	Clouds         []string
	Regions        []string
	// CloudRegions are regions of other clouds, CLOUD:REGION.
	CloudRegions []string
	// Services are names of the catalogue, such as emr.
	Services []string
	// Without are machines never to buy, as in planner.Options.Without.
	Without []string
	Secrets []string
	// SecretClouds are the clouds whose functions fetch secrets.
	SecretClouds []string
	// PushClouds are the clouds that push notices.
	PushClouds []string
	// DAGBuckets are buckets of other clouds whose files are jobs, by cloud.
	DAGBuckets map[string]string
	Stores     map[string]string // bucket by region, URL by CLOUD:REGION
	Topic      string
	Webhook    string
	MailFrom   string
	// TopicCloud is the cloud whose function publishes on the topics that jobs name.
	TopicCloud string
	// TraceHeaders is the name of a parameter.
	TraceHeaders string
	Announce     []string
	Policy       string
	// Keep is how long finished jobs are kept.
	Keep time.Duration
	// Limit is what the deployment may have of bought machines at the same time.
	Limit config.Limit
	// AgentsCall is how often working agents call.
	AgentsCall time.Duration
	// Unproven accepts machines that do not prove their identity.
	Unproven     bool
	Certificates string
	Proofs       map[string]string
	LogLevel     string
}

// ErrEnv means that the environment is not as infra/ sets it.
var ErrEnv = base.ErrEnv

// LoadEnv reads the environment with getenv. Its error wraps ErrEnv and names every wrong variable.
func LoadEnv(getenv func(string) string) (Env, error) {
	r := base.Reader{Getenv: getenv}
	env := Env{
		Deployment: r.Need(EnvDeployment), Table: r.Need(EnvTable), Bus: r.Need(EnvBus),
		QueuePrefix: r.Need(EnvQueuePrefix), QueueURLs: getenv(EnvQueueURLs),
		DAGBucket: r.Need(EnvDAGBucket), WorkBucket: r.Need(EnvWorkBucket),
		API: r.URL(EnvAPI), TokenKey: r.Need(EnvTokenKey),
		AgentKey: r.Need(EnvAgentKey), MountsRole: getenv(EnvMountsRole), RcloneKey: base.List(getenv(EnvRcloneKey)),
		Schedules: base.List(getenv(EnvSchedules)), ExpirySchedule: getenv(EnvExpirySchedule),
		Mappings: base.List(getenv(EnvMappings)),
		Clouds:   base.List(getenv(EnvClouds)), Regions: base.List(getenv(EnvRegions)),
		CloudRegions: base.List(getenv(EnvCloudRegions)), Without: base.List(getenv(EnvWithout)),
		Services: base.List(getenv(EnvServices)),
		Proofs:   r.Pairs(EnvProofs), Topic: getenv(EnvTopic),
		PushClouds:   base.List(getenv(EnvPushClouds)),
		DAGBuckets:   r.Pairs(EnvDAGBuckets),
		SecretClouds: base.List(getenv(EnvSecretClouds)), Secrets: base.List(getenv(EnvSecrets)),
		Stores:     r.Pairs(EnvStores),
		Keep:       r.Keep(EnvKeep),
		Limit:      config.Limit{Machines: int(r.Amount(EnvLimitMachines)), USDPerHour: r.Amount(EnvLimitUSD)},
		AgentsCall: r.Span(EnvAgentsCall, agentsCall),
		TopicCloud: getenv(EnvTopicCloud), Webhook: getenv(EnvWebhook), MailFrom: getenv(EnvMailFrom),
		Announce: base.List(getenv(EnvAnnounce)),
		Unproven: r.OneOf(EnvProof, "required", "optional") == "optional", Certificates: getenv(EnvCertificates),
		TraceHeaders: getenv(EnvTraceHeaders),
		Policy:       getenv(EnvPolicy), LogLevel: r.Level(EnvLogLevel),
	}
	if len(env.Clouds) == 0 {
		env.Clouds = []string{"aws"}
	}
	if err := r.Err(); err != nil {
		return Env{}, err
	}
	return env, nil
}

// Function returns the name of a Lambda function of the deployment.
func (e Env) Function(fn string) string { return e.Deployment + "-" + fn }
