package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// growing returns a world with one node of two CPUs and a pool that can grow to three such nodes, and a function that
// adds a node.
func growing(t *testing.T) (w *world, more func(name string)) {
	t.Helper()
	return growingWith(t, kubetest.Options{})
}

func growingWith(t *testing.T, o kubetest.Options) (w *world, more func(name string)) {
	t.Helper()
	small := large("a")
	small.CPUs, small.GiB = 2, 8
	w = newWorldWith(t, o, small)
	w.cfg.Places[0].Pools = []kubernetes.Pool{{Most: 3, Node: kubernetes.Node{
		Type: "m5.16xlarge", Zone: "us-east-1a", Whole: kubernetes.Room{MilliCPU: 2000, Bytes: 8 << 30},
	}}}
	w.again()
	return w, func(name string) {
		w.Helper()
		n := small
		n.Name = name
		w.add(n)
	}
}

// counts are the numbers of pods in the namespace: the gang's pods, those of them with a node, the placeholders, and
// those of them with a node.
type counts struct{ gang, bound, placeholders, placed int }

func (w *world) count() (n counts) {
	w.Helper()
	list, err := w.cluster.Client.CoreV1().Pods(namespace).List(context.WithoutCancel(w.Context()), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		all, placed := &n.gang, &n.bound
		if p.Labels["tradewind.dev/cluster"] == "" {
			all, placed = &n.placeholders, &n.placed
		}
		if *all++; p.Spec.NodeName != "" {
			*placed++
		}
	}
	return n
}

// While a pool grows for a gang, none of the gang's pods may have a node. Placeholders wait instead, and give way to
// other users' pods.
func TestGangStaysUnboundWhilePoolGrows(t *testing.T) {
	w, more := growing(t)
	_, err := w.cluster.Client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetes.PlaceholderPriority}, Value: -10,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("gang", 6))
		done <- err
	}()
	w.await("placeholders on the existing node", func() bool {
		return w.count() == counts{gang: 6, placeholders: 6, placed: 2}
	})
	w.other("urgent")
	w.await("another user's pod in the place of a placeholder", func() bool { return w.hasNode("urgent") })
	more("b")
	w.await("placeholders on the new node", func() bool { return w.count().placed == 3 })
	if n := w.count(); n.bound > 0 {
		t.Errorf("half of the gang is bound: %+v", n)
	}
	if err := w.cluster.Client.CoreV1().Pods("default").Delete(t.Context(), "urgent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	more("c")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := w.count(); n != (counts{gang: 6, bound: 6}) {
		t.Errorf("in the end: %+v", n)
	}
}

// A pool does not grow. The launch must fail, with no pod bound and nothing left.
func TestPoolThatDoesNotGrow(t *testing.T) {
	w, _ := growing(t)
	w.cfg.GrowWithin = 3 * time.Second
	w.again()
	_, err := w.driver.Launch(t.Context(), spec("gang", 6))
	if cloud.KindOf(err) != cloud.Capacity || cloud.Late(err) != 0 ||
		!strings.Contains(err.Error(), "room for 2 of 6 pods") || !strings.Contains(err.Error(), "Insufficient cpu") {
		t.Errorf("%v (%d pods were bound)", err, cloud.Late(err))
	}
	var typed *cloud.Error
	if !errors.As(err, &typed) || typed.RetryAfterFull != 5*time.Minute {
		t.Errorf("%+v: AskAgain must be five minutes", typed)
	}
	w.await("an empty namespace", func() bool { return len(w.left()) == 0 })
}

// A launch is repeated because the broker was killed or the first launch took too long. It must continue with the
// existing placeholders. A termination of the gang must remove them.
func TestRepeatedLaunchContinuesWithPlaceholders(t *testing.T) {
	w, more := growing(t)
	for _, name := range []string{"killed", "again"} {
		ctx, kill := context.WithCancel(t.Context())
		done := make(chan error, 1)
		cfg := w.cfg
		cfg.Places = append([]kubernetes.Place{}, cfg.Places...)
		if name == "killed" {
			cfg.Places[0].Client = dying(ctx, t, w.cluster)
		}
		go func() {
			_, err := kubernetes.New(cfg).Launch(ctx, spec(name, 4))
			done <- err
		}()
		w.await("placeholders", func() bool { return w.count() == counts{gang: 4, placeholders: 4, placed: 2} })
		kill()
		if err := <-done; err == nil {
			t.Fatal("the launch has not ended")
		}
		if n := w.count(); n.placeholders == 0 {
			t.Fatalf("no placeholders are left to continue with: %+v", n)
		}
		if name == "killed" {
			if err := w.driver.Terminate(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			w.await("an empty namespace", func() bool { return len(w.left()) == 0 })
		}
	}
	more("b")
	w.launch("again", 4)
	if n := w.count(); n != (counts{gang: 4, bound: 4}) {
		t.Errorf("in the end: %+v", n)
	}
}

// A quota forbids placeholders. The gang's own pods must then wait for new nodes.
func TestQuotaForbidsPlaceholders(t *testing.T) {
	w, more := growing(t)
	_, err := w.cluster.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "six-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("6")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("gang", 4))
		done <- err
	}()
	w.await("half a gang", func() bool { return w.count() == counts{gang: 4, bound: 2} })
	more("b")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The native gang scheduler does not mark pods as unschedulable, so autoscalers add no nodes for them. Placeholders
// must make the pool grow, while the gang's pods occupy nothing.
func TestPoolGrowsForNativeGang(t *testing.T) {
	w, more := growingWith(t, kubetest.Options{Gangs: true})
	w.by("native")
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("gang", 4))
		done <- err
	}()
	w.await("placeholders on the existing node", func() bool {
		return w.count() == counts{gang: 4, placeholders: 4, placed: 2}
	})
	more("b")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := w.count(); n != (counts{gang: 4, bound: 4}) {
		t.Errorf("in the end: %+v", n)
	}
}

// A gang was promised room. It must get it before the placeholders of a later gang.
func TestPlaceholdersWaitForPromisedGangs(t *testing.T) {
	w, more := growing(t)
	promised, held := make(chan struct{}), make(chan struct{})
	var told atomic.Bool
	w.observed(func(r *http.Request) {
		secret := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets")
		if secret && told.CompareAndSwap(false, true) { // the first gang has found room, and has no pods yet
			close(promised)
			<-held
		}
	})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("first", 2))
		first <- err
	}()
	<-promised
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("second", 2))
		second <- err
	}()
	w.await("the second gang's pods, gated", func() bool { return w.count().gang == 2 })
	for range 50 { // long enough to create and place placeholders
		if n := w.count(); n.placeholders > 0 {
			t.Fatalf("placeholders exist before the first gang has its room: %+v", n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(held)
	if err := <-first; err != nil {
		t.Error(err)
	}
	more("b")
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// A gang waits for new nodes. It must make no lists while the watch reports its placeholders: in a cluster of ten
// thousand pods, thirty such gangs would keep the API server busy.
func TestWaitingGangMakesNoLists(t *testing.T) {
	w, more := growing(t)
	var lists atomic.Int64
	w.observed(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") && r.URL.Query().Get("watch") == "" {
			lists.Add(1)
		}
	})
	w.watch()
	done := make(chan error, 1)
	go func() {
		_, err := w.driver.Launch(t.Context(), spec("gang", 6))
		done <- err
	}()
	w.await("placeholders on the existing node", func() bool {
		return w.count() == counts{gang: 6, placeholders: 6, placed: 2}
	})
	w.await("25 looks without a list", func() bool {
		lists.Store(0)
		time.Sleep(25 * w.cfg.LookEvery)
		return lists.Load() == 0
	})
	more("b")
	more("c")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := w.count(); n != (counts{gang: 6, bound: 6}) {
		t.Errorf("in the end: %+v", n)
	}
}

// A gang's placeholders must not be removed while another gang's placeholders wait for a node. The waiting ones would
// take their nodes.
func TestPlaceholdersStayWhileOtherGangsWait(t *testing.T) {
	w, more := growing(t)
	done := make(chan error, 2)
	launch := func(name string) {
		go func() {
			_, err := w.driver.Launch(t.Context(), spec(name, 3))
			done <- err
		}()
	}
	launch("first")
	w.await("placeholders of the first", func() bool { return w.count() == counts{gang: 3, placeholders: 3, placed: 2} })
	launch("second")
	w.await("placeholders of both", func() bool { return w.count() == counts{gang: 6, placeholders: 6, placed: 2} })
	more("b")
	w.await("placeholders on the new node", func() bool { return w.count().placed == 4 })
	for range 50 { // long enough for a gang to take the node
		if n := w.count(); n.bound > 0 {
			t.Fatalf("one gang took its place while the other waits: %+v", n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	more("c")
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := w.count(); n != (counts{gang: 6, bound: 6}) {
		t.Errorf("in the end: %+v", n)
	}
}

// other creates another user's pod that requests one CPU.
func (w *world) other(name string) {
	w.Helper()
	one := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	_, err := w.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "one", Image: "registry.example/one:1", Resources: corev1.ResourceRequirements{Requests: one},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) hasNode(name string) bool {
	p, err := w.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(w.Context(), name, metav1.GetOptions{})
	return err == nil && p.Spec.NodeName != ""
}

// dying returns the client of a process that is killed when ctx ends: it makes no calls afterwards.
func dying(ctx context.Context, t *testing.T, c *kubetest.Cluster) kubernetes.Client {
	t.Helper()
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return around(func(r *http.Request) (*http.Response, error) {
			if ctx.Err() != nil {
				return nil, context.Canceled
			}
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
