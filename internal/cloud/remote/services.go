package remote

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// The operations of managed services.
const (
	opCreatePlace = "createPlace"
	opSubmitRun   = "submitRun"
	opWatchRun    = "watchRun"
	opReadLog     = "readLog"
	opCancelRun   = "cancelRun"
	opEndPlace    = "endPlace"
	opPlaces      = "places"
)

// serviceCall has the arguments of an operation of a managed service.
type serviceCall struct {
	Service string        `json:"service"`
	Spec    *service.Spec `json:"spec,omitempty"`
	App     *service.App  `json:"app,omitempty"`
	Place   place         `json:"place,omitzero"`
	Run     service.Run   `json:"run,omitzero"`
}

// serviceAnswer has the results of an operation of a managed service. The streams of a log are gzipped.
type serviceAnswer struct {
	Places []place     `json:"places,omitempty"`
	Place  place       `json:"place,omitzero"`
	Run    service.Run `json:"run,omitzero"`
	Stdout []byte      `json:"stdout,omitempty"`
	Stderr []byte      `json:"stderr,omitempty"`
}

// place is a service.Place as it is sent: its Why replaces that of the embedded place, which JSON cannot decode.
type place struct {
	service.Place
	Why *failure
}

func sentPlace(p service.Place) place {
	sent := place{Place: p}
	if p.Why != nil {
		sent.Why = failed(p.Why)
	}
	return sent
}

func (p place) received(cloudName string) service.Place {
	got := p.Place
	if got.Why = nil; p.Why != nil {
		got.Why = p.Why.error(cloudName)
	}
	return got
}

// Service is a managed service whose driver runs on the other side. It implements service.Service.
type Service struct {
	cloud   *Client
	service string
}

var _ service.Service = (*Service)(nil)

// Service returns the driver of a managed service of the cloud.
func (c *Client) Service(name string) *Service { return &Service{cloud: c, service: name} }

// Name implements service.Service.
func (s *Service) Name() string { return s.service }

func (s *Service) roundTrip(ctx context.Context, op string, args serviceCall) (serviceAnswer, error) {
	args.Service = s.service
	a, err := s.cloud.roundTrip(ctx, call{Op: op, Managed: &args})
	if a.Managed == nil {
		return serviceAnswer{}, err
	}
	return *a.Managed, err // with the state of the place if only the run is missing
}

// Create implements service.Service.
func (s *Service) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	a, err := s.roundTrip(ctx, opCreatePlace, serviceCall{Spec: &spec})
	return a.Place.received(s.cloud.name), err
}

// Submit implements service.Service.
func (s *Service) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	a, err := s.roundTrip(ctx, opSubmitRun, serviceCall{Place: sentPlace(at), App: &app})
	return a.Run, err
}

// Watch implements service.Service.
func (s *Service) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	a, err := s.roundTrip(ctx, opWatchRun, serviceCall{Place: sentPlace(at), Run: run})
	return a.Place.received(s.cloud.name), a.Run, err
}

// Log implements service.Service. The log is shortened if it does not fit into an answer.
func (s *Service) Log(ctx context.Context, at service.Place, run service.Run) (service.Log, error) {
	a, err := s.roundTrip(ctx, opReadLog, serviceCall{Place: sentPlace(at), Run: run})
	if err != nil {
		return service.Log{}, err
	}
	log := service.Log{}
	for to, packed := range map[*[]byte][]byte{&log.Stdout: a.Stdout, &log.Stderr: a.Stderr} {
		if len(packed) == 0 {
			continue
		}
		if *to, err = unzipped(packed, service.MaxLog); err != nil {
			return service.Log{}, s.cloud.fail(cloud.Transient, codeBadMessage, err)
		}
	}
	return log, nil
}

// Cancel implements service.Service.
func (s *Service) Cancel(ctx context.Context, at service.Place, run service.Run) error {
	_, err := s.roundTrip(ctx, opCancelRun, serviceCall{Place: sentPlace(at), Run: run})
	return err
}

// End implements service.Service.
func (s *Service) End(ctx context.Context, at service.Place) error {
	_, err := s.roundTrip(ctx, opEndPlace, serviceCall{Place: sentPlace(at)})
	return err
}

// Places implements service.Service.
func (s *Service) Places(ctx context.Context) (all []service.Place, err error) {
	a, err := s.roundTrip(ctx, opPlaces, serviceCall{})
	for _, p := range a.Places {
		all = append(all, p.received(s.cloud.name))
	}
	return all, err
}

// managed serves the operations of managed services.
func (s Server) managed(ctx context.Context, in call) (answer, error) {
	args := in.Managed
	if args == nil {
		return answer{}, cloud.Errorf(s.name(), cloud.Invalid, codeBadMessage, "%s without arguments", in.Op)
	}
	of, ok := s.Services[args.Service]
	if !ok {
		return answer{}, cloud.Errorf(s.name(), cloud.Auth, cloud.CodeNoCredentials,
			"the function of this cloud does not buy %q: deploy it again with this service", args.Service)
	}
	at := args.Place.received(s.name())
	out := &serviceAnswer{}
	var p service.Place
	var err error
	switch in.Op {
	case opCreatePlace:
		if args.Spec == nil {
			return answer{}, cloud.Errorf(s.name(), cloud.Invalid, codeBadMessage, "a place without a spec")
		}
		p, err = of.Create(ctx, *args.Spec)
	case opSubmitRun:
		if args.App == nil {
			return answer{}, cloud.Errorf(s.name(), cloud.Invalid, codeBadMessage, "a run without an application")
		}
		out.Run, err = of.Submit(ctx, at, *args.App)
	case opWatchRun:
		p, out.Run, err = of.Watch(ctx, at, args.Run)
	case opReadLog:
		var log service.Log
		log, err = of.Log(ctx, at, args.Run)
		out.Stdout, out.Stderr = zippedStart(log.Stdout), zippedStart(log.Stderr)
	case opCancelRun:
		err = of.Cancel(ctx, at, args.Run)
	case opEndPlace:
		err = of.End(ctx, at)
	case opPlaces:
		var all []service.Place
		all, err = of.Places(ctx)
		for _, p := range all {
			out.Places = append(out.Places, sentPlace(p))
		}
	}
	out.Place = sentPlace(p)
	return answer{Managed: out}, err
}

// maxStream is the maximum size of a gzipped stream of a log, in bytes: base64 of both must fit into an answer.
const maxStream = maxPacked / 2

// zippedStart returns the gzipped beginning of a stream that fits into an answer.
func zippedStart(stream []byte) []byte {
	if len(stream) == 0 {
		return nil
	}
	packed := zipped(stream)
	for len(packed) > maxStream {
		stream = stream[:len(stream)/2]
		packed = zipped(stream)
	}
	return packed
}
