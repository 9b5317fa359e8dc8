package notices

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	azureEvents = "/metadata/scheduledevents?api-version=2020-07-01"
	azureName   = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
	// azureLead is the minimum time between the announcement of a Preempt event and the event.
	azureLead = 30 * time.Second
	// azureHorizon is the time before an event at which the event is reported. Azure announces a predicted hardware
	// failure days ahead, and the machine works until then.
	azureHorizon = 15 * time.Minute
)

// azureEnds are the types of events that end the processes of a machine. A Freeze only pauses them for seconds.
var azureEnds = []string{"Preempt", "Reboot", "Redeploy", "Terminate"}

// azure polls the Scheduled Events document.
type azure struct {
	service
	poller
	name string // of this machine in events
}

func (w *azure) Watch(ctx context.Context, tell func(Notice)) { w.run(ctx, tell, w.poll) }

func (w *azure) poll(ctx context.Context) ([]Notice, error) {
	header := http.Header{"Metadata": {"true"}}
	if w.name == "" {
		name, _, err := w.ask(ctx, http.MethodGet, azureName, header)
		if err != nil {
			return nil, err
		}
		w.name = strings.TrimSpace(name)
	}
	body, _, err := w.ask(ctx, http.MethodGet, azureEvents, header)
	if err != nil {
		return nil, err
	}
	return ScheduledEvents([]byte(body), w.name, w.clock.Now())
}

// ScheduledEvents reads Azure's Scheduled Events document and returns the notices of the machine with a name. There
// is one for each event that names the machine, ends the work on it, and has begun or begins within 15 minutes. The
// document also contains events of other machines if several machines form a set.
func ScheduledEvents(document []byte, machine string, now time.Time) ([]Notice, error) {
	var in struct {
		Events []struct {
			EventID     string   `json:"EventId"`
			EventType   string   `json:"EventType"`
			EventStatus string   `json:"EventStatus"`
			Resources   []string `json:"Resources"`
			NotBefore   string   `json:"NotBefore"`
		} `json:"Events"`
	}
	if err := json.Unmarshal(document, &in); err != nil {
		return nil, fmt.Errorf("scheduled events: %w", err)
	}
	var found []Notice
	for _, e := range in.Events {
		mine := slices.ContainsFunc(e.Resources, func(r string) bool { return strings.EqualFold(r, machine) })
		if !slices.Contains(azureEnds, e.EventType) || !mine || machine == "" || e.EventStatus != "Scheduled" &&
			e.EventStatus != "Started" {
			continue
		}
		n := Notice{Kind: Interruption, ID: e.EventID, At: now}
		if e.EventStatus == "Scheduled" {
			n.At = now.Add(azureLead)
			if at, err := http.ParseTime(e.NotBefore); err == nil {
				n.At = at
			}
		}
		if n.At.Sub(now) > azureHorizon {
			continue
		}
		found = append(found, n)
	}
	return found, nil
}
