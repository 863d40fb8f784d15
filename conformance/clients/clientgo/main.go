// A program like those people write with client-go: every kind through its typed client, informers, leader election and
// server-side apply. It writes what it saw as one line of JSON a case, without what differs between any two clusters,
// so that `cargo xtask conformance clients` can compare the lines of two servers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applyautoscaling "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"
)

const (
	patience = 60 * time.Second
	manager  = "clients"
)

// sampleKind is an object to go through the verbs with.
type sampleKind struct {
	Key        string         `json:"key"`
	APIVersion string         `json:"apiVersion"`
	Resource   string         `json:"resource"`
	Namespaced bool           `json:"namespaced"`
	Name       string         `json:"name"`
	Object     map[string]any `json:"object"`
	// The one its objects are made in.
	Namespace string `json:"-"`
}

// transcript is what was seen, a line a case.
type transcript struct {
	mutex sync.Mutex
	out   *json.Encoder
	// The name of the encoding begins every case.
	encoding string
	runID    string
}

func (t *transcript) record(name string, value any, err error) {
	line := map[string]any{"case": t.encoding + "/" + name}
	if err != nil {
		line["error"] = t.describe(err)
	} else {
		line["value"] = t.plain(value)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.out.Encode(line); err != nil {
		panic(err)
	}
}

func (t *transcript) describe(err error) any {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		body := status.Status()
		return map[string]any{"reason": body.Reason, "code": body.Code, "message": t.text(body.Message), "details": t.plain(body.Details)}
	}
	return t.text(err.Error())
}

var tokenVolume = regexp.MustCompile("kube-api-access-[a-z0-9]{5}")

var identity = regexp.MustCompile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

func (t *transcript) text(text string) string {
	text = identity.ReplaceAllString(strings.ReplaceAll(text, t.runID, "<run>"), "<uid>")
	return tokenVolume.ReplaceAllString(text, "kube-api-access-<random>")
}

// changing are the members that differ between any two clusters.
var changing = map[string]bool{
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "deletionTimestamp": true, "time": true,
	"clusterIP": true, "clusterIPs": true, "nodePort": true, "healthCheckNodePort": true, "lastTransitionTime": true, "lastUpdateTime": true,
	"lastProbeTime": true, "lastHeartbeatTime": true, "lastPhaseTransitionTime": true, "timeAdded": true, "continue": true, "username": true,
}

func (t *transcript) plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		panic(err)
	}
	return t.strip(decoded)
}

func (t *transcript) strip(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if changing[name] && member != nil {
				value[name] = "<" + name + ">"
			} else {
				value[name] = t.strip(member)
			}
		}
		if managers, ok := value["managedFields"].([]any); ok {
			// Controllers write at their own time.
			ours := []any{}
			for _, entry := range managers {
				if name, _ := entry.(map[string]any)["manager"].(string); strings.HasPrefix(name, manager) {
					ours = append(ours, entry)
				}
			}
			value["managedFields"] = ours
		}
		return value
	case []any:
		for i := range value {
			value[i] = t.strip(value[i])
		}
		return value
	case string:
		return t.text(value)
	}
	return value
}

// settled is an object without what controllers write at their own time.
func settled(object any) any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	metadata, _ := value["metadata"].(map[string]any)
	if notes, ok := metadata["annotations"].(map[string]any); ok {
		delete(notes, "node.alpha.kubernetes.io/ttl")
		delete(notes, "deployment.kubernetes.io/revision")
		if len(notes) == 0 {
			delete(metadata, "annotations")
		}
	}
	if status, ok := value["status"].(map[string]any); ok && status["nodeInfo"] != nil {
		// Whose the map of a node's annotations is depends on when its controllers write.
		delete(metadata, "managedFields")
	}
	delete(value, "status")
	if spec, ok := value["spec"].(map[string]any); ok {
		if taints, ok := spec["taints"].([]any); ok {
			kept := []any{}
			for _, taint := range taints {
				if key, _ := taint.(map[string]any)["key"].(string); !strings.HasPrefix(key, "node.kubernetes.io/") {
					kept = append(kept, taint)
				}
			}
			spec["taints"] = kept
		}
	}
	return value
}

// typedClient calls the methods every generated client has.
type typedClient struct{ value reflect.Value }

// clientOf finds the generated client of a resource among clientsets.
func clientOf(clientsets []any, kind sampleKind, namespace string) (typedClient, bool) {
	version, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		panic(err)
	}
	group := strings.Split(version.Group, ".")[0]
	if group == "" {
		group = "core"
	}
	for _, clientset := range clientsets {
		set := reflect.ValueOf(clientset)
		for i := 0; i < set.NumMethod(); i++ {
			if !strings.EqualFold(set.Type().Method(i).Name, group+version.Version) || set.Method(i).Type().NumIn() != 0 {
				continue
			}
			of := set.Method(i).Call(nil)[0].Elem()
			for j := 0; j < of.NumMethod(); j++ {
				if !strings.EqualFold(of.Type().Method(j).Name, kind.Resource) {
					continue
				}
				var arguments []reflect.Value
				if of.Method(j).Type().NumIn() == 1 {
					arguments = append(arguments, reflect.ValueOf(namespace))
				}
				return typedClient{of.Method(j).Call(arguments)[0].Elem()}, true
			}
		}
	}
	return typedClient{}, false
}

func (c typedClient) has(method string) bool { return c.value.MethodByName(method).IsValid() }

// call calls a method of two results or one, the last of which is an error.
func (c typedClient) call(method string, arguments ...any) (any, error) {
	values := []reflect.Value{reflect.ValueOf(context.Background())}
	for _, argument := range arguments {
		values = append(values, reflect.ValueOf(argument))
	}
	results := c.value.MethodByName(method).Call(values)
	err, _ := results[len(results)-1].Interface().(error)
	if len(results) == 1 {
		return nil, err
	}
	return results[0].Interface(), err
}

// object makes an object of the type a method takes.
func (c typedClient) object(method string, body map[string]any) any {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	made := reflect.New(c.value.MethodByName(method).Type().In(1).Elem()).Interface()
	if err := json.Unmarshal(text, made); err != nil {
		panic(err)
	}
	return made
}

func (k sampleKind) named(name string) map[string]any {
	text, _ := json.Marshal(k.Object)
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		panic(err)
	}
	if about, ok := body["involvedObject"].(map[string]any); ok {
		about["namespace"] = k.Namespace
	}
	body["metadata"].(map[string]any)["name"] = name
	body["metadata"].(map[string]any)["labels"] = map[string]any{"l": "v", "sample": name}
	return body
}

// everyVerb takes a kind through the verbs of its typed client.
func everyVerb(t *transcript, client typedClient, kind sampleKind) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := kind.Name
	if name == "" {
		name = "x"
		if !kind.Namespaced {
			name = "x-" + t.runID
		}
	}
	selected := metav1.ListOptions{LabelSelector: "sample=" + name}
	at := func(step string) string { return kind.Key + "/" + step }

	seen := []string{}
	done := make(chan struct{})
	watched, err := client.call("Watch", selected)
	if err != nil {
		t.record(at("watch"), nil, err)
		close(done)
	} else {
		watcher := watched.(watch.Interface)
		defer watcher.Stop()
		go func() {
			defer close(done)
			for {
				select {
				case event, ok := <-watcher.ResultChan():
					if !ok {
						return
					}
					// How often a controller writes in between is its own affair.
					if len(seen) == 0 || seen[len(seen)-1] != string(event.Type) {
						seen = append(seen, string(event.Type))
					}
					if event.Type == watch.Deleted {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	dry, err := client.call("Create", client.object("Create", kind.named(name)), metav1.CreateOptions{DryRun: []string{"All"}, FieldManager: manager})
	t.record(at("dry create"), dry, err)
	made, err := client.call("Create", client.object("Create", kind.named(name)), metav1.CreateOptions{FieldManager: manager})
	t.record(at("create"), made, err)
	if err != nil {
		return
	}
	_, err = client.call("Create", client.object("Create", kind.named(name)), metav1.CreateOptions{FieldManager: manager})
	t.record(at("create again"), nil, err)
	read, err := client.call("Get", name, metav1.GetOptions{})
	t.record(at("get"), settled(read), err)
	_, err = client.call("Get", "missing-"+t.runID, metav1.GetOptions{})
	t.record(at("get missing"), nil, err)
	listed, err := client.call("List", selected)
	t.record(at("list"), settledList(listed), err)
	listed, err = client.call("List", metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1})
	t.record(at("list by field"), len(itemsOf(listed)), err)
	_, err = client.call("List", metav1.ListOptions{FieldSelector: "spec.absent=1"})
	t.record(at("list by unknown field"), nil, err)

	annotated := func(object any, value string) any {
		meta := object.(metav1.Object)
		meta.SetAnnotations(map[string]string{"changed": value})
		return object
	}
	var updated any
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := client.call("Get", name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		updated, err = client.call("Update", annotated(live, "update"), metav1.UpdateOptions{FieldManager: manager})
		return err
	})
	t.record(at("update"), settled(updated), err)
	_, err = client.call("Update", annotated(made, "stale"), metav1.UpdateOptions{FieldManager: manager})
	t.record(at("stale update"), nil, err)
	absent := client.object("Create", kind.named("missing-"+t.runID))
	absent.(metav1.Object).SetUID("")
	if kind.Name == "" {
		_, err = client.call("Update", absent, metav1.UpdateOptions{FieldManager: manager})
		t.record(at("update missing"), nil, err)
	}
	patch := func(kindOf types.PatchType, body string, more ...any) {
		arguments := append([]any{name, kindOf, []byte(body), metav1.PatchOptions{FieldManager: manager}}, more...)
		patched, err := client.call("Patch", arguments...)
		t.record(at(fmt.Sprintf("patch %s %v", kindOf, more)), settled(patched), err)
	}
	patch(types.MergePatchType, `{"metadata":{"annotations":{"merge":"1"}}}`)
	patch(types.StrategicMergePatchType, `{"metadata":{"labels":{"strategic":"1"}}}`)
	patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"1"}]`)
	patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"other"}]`)
	patch(types.MergePatchType, `{"metadata":{"name":"other"}}`)
	if client.has("UpdateStatus") {
		patch(types.MergePatchType, `{"metadata":{"annotations":{"status":"1"}}}`, "status")
		var updated any
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live, err := client.call("Get", name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			updated, err = client.call("UpdateStatus", annotated(live, "status"), metav1.UpdateOptions{FieldManager: manager})
			return err
		})
		t.record(at("update status"), settled(updated), err)
	}
	if client.has("Apply") {
		configuration := func(method, label string) any {
			return client.object(method, map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Object["kind"],
				"metadata": map[string]any{"name": name, "labels": map[string]any{"l": label}}})
		}
		_, err := client.call("Apply", configuration("Apply", "other"), metav1.ApplyOptions{FieldManager: manager + "-apply"})
		t.record(at("apply conflict"), nil, err)
		applied, err := client.call("Apply", configuration("Apply", "other"), metav1.ApplyOptions{FieldManager: manager + "-apply", Force: true})
		t.record(at("apply"), settled(applied), err)
		if client.has("ApplyStatus") {
			applied, err := client.call("ApplyStatus", configuration("ApplyStatus", "status"), metav1.ApplyOptions{FieldManager: manager + "-status", Force: true})
			t.record(at("apply status"), settled(applied), err)
		}
	}
	if client.has("GetScale") {
		scale, err := client.call("GetScale", name, metav1.GetOptions{})
		t.record(at("get scale"), scale, err)
		if err == nil {
			scaled, err := client.call("UpdateScale", name, scale, metav1.UpdateOptions{FieldManager: manager})
			t.record(at("update scale"), scaled, err)
		}
	}
	_, err = client.call("Delete", name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other-" + t.runID))}})
	t.record(at("delete of another uid"), nil, err)
	_, err = client.call("Delete", "missing-"+t.runID, metav1.DeleteOptions{})
	t.record(at("delete missing"), nil, err)
	grace := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	_, err = client.call("Delete", name, grace)
	t.record(at("delete"), nil, err)
	gone := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		_, err := client.call("Get", name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	t.record(at("gone"), gone == nil, nil)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
	}
	t.record(at("watched"), append([]string{}, seen...), nil)

	if kind.Name != "" {
		return
	}
	for _, more := range []string{name + "-1", name + "-2"} {
		body := kind.named(more)
		body["metadata"].(map[string]any)["labels"] = map[string]any{"collection": name}
		_, err := client.call("Create", client.object("Create", body), metav1.CreateOptions{FieldManager: manager})
		t.record(at("create "+more[len(name):]), nil, err)
	}
	err = errors.New("the client has no such method")
	if client.has("DeleteCollection") {
		_, err = client.call("DeleteCollection", grace, metav1.ListOptions{LabelSelector: "collection=" + name})
		t.record(at("delete collection"), nil, err)
	}
	if err != nil {
		for _, more := range []string{name + "-1", name + "-2"} {
			_, err = client.call("Delete", more, grace)
			t.record(at("delete "+more[len(name):]), nil, err)
		}
	}
	gone = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		listed, err := client.call("List", metav1.ListOptions{LabelSelector: "collection=" + name})
		return err == nil && len(itemsOf(listed)) == 0, nil
	})
	t.record(at("collection gone"), gone == nil, nil)
}

func itemsOf(list any) []any {
	if list == nil || reflect.ValueOf(list).IsNil() {
		return nil
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	found := []any{}
	for i := 0; i < items.Len(); i++ {
		found = append(found, items.Index(i).Addr().Interface())
	}
	return found
}

func settledList(list any) any {
	found := []any{}
	for _, item := range itemsOf(list) {
		found = append(found, settled(item))
	}
	return found
}

// informersSurviveARestart holds what an informer's cache and handlers say before and after the server was away.
func informersSurviveARestart(t *transcript, set kubernetes.Interface, namespace string) {
	factory := informers.NewSharedInformerFactoryWithOptions(set, 2*time.Second, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "informed=yes" }))
	informer := factory.Core().V1().ConfigMaps()
	indexed := map[string]cache.IndexFunc{"color": func(object any) ([]string, error) { return []string{object.(*corev1.ConfigMap).Data["color"]}, nil }}
	if err := informer.Informer().AddIndexers(indexed); err != nil {
		panic(err)
	}
	var mutex sync.Mutex
	events := map[string]int{}
	resynced := 0
	count := func(event, name string) {
		mutex.Lock()
		defer mutex.Unlock()
		events[event+" "+name]++
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { count("add", object.(*corev1.ConfigMap).Name) },
		UpdateFunc: func(old, object any) {
			if old.(*corev1.ConfigMap).ResourceVersion == object.(*corev1.ConfigMap).ResourceVersion {
				mutex.Lock()
				resynced++
				mutex.Unlock()
				return
			}
			count("update", object.(*corev1.ConfigMap).Name)
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			count("delete", object.(*corev1.ConfigMap).Name)
		},
	})
	if err != nil {
		panic(err)
	}
	maps := set.CoreV1().ConfigMaps(namespace)
	create := func(name, color string) {
		_, err := maps.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"informed": "yes"}}, Data: map[string]string{"color": color}}, metav1.CreateOptions{})
		t.record("informer/create "+name, nil, err)
	}
	cached := func() any {
		names := []string{}
		for _, object := range informer.Informer().GetStore().List() {
			names = append(names, object.(*corev1.ConfigMap).Name+"="+object.(*corev1.ConfigMap).Data["color"])
		}
		sort.Strings(names)
		red, _ := informer.Informer().GetIndexer().ByIndex("color", "red")
		return map[string]any{"names": names, "red": len(red)}
	}
	reached := func(what string, ready func() bool) {
		err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return ready(), nil
		})
		t.record("informer/"+what, cached(), err)
	}
	create("a", "red")
	create("b", "blue")
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	reached("first list", func() bool { return events["add a"] == 1 && events["add b"] == 1 })
	create("c", "red")
	reached("added", func() bool { return events["add c"] == 1 })
	_, err = maps.Patch(context.Background(), "a", types.MergePatchType, []byte(`{"data":{"color":"green"}}`), metav1.PatchOptions{})
	t.record("informer/patch", nil, err)
	reached("changed", func() bool { return events["update a"] == 1 })
	t.record("informer/delete", nil, maps.Delete(context.Background(), "b", metav1.DeleteOptions{}))
	reached("deleted", func() bool { return events["delete b"] == 1 })
	reached("resynced", func() bool { return resynced >= 2 })

	// Whoever started this program restarts the server and says so.
	fmt.Println("restart")
	bufio.NewScanner(os.Stdin).Scan()
	err = wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		_, err := set.Discovery().ServerVersion()
		return err == nil, nil
	})
	t.record("informer/server is back", nil, err)
	err = wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		_, err := maps.Get(context.Background(), "a", metav1.GetOptions{})
		return err == nil, nil
	})
	t.record("informer/objects are kept", nil, err)
	create("d", "red")
	reached("added after the restart", func() bool { return events["add d"] == 1 })
	t.record("informer/delete after the restart", nil, maps.Delete(context.Background(), "c", metav1.DeleteOptions{}))
	reached("deleted after the restart", func() bool { return events["delete c"] == 1 })
	mutex.Lock()
	defer mutex.Unlock()
	t.record("informer/events", events, nil)
}

// leadersTakeOver runs two candidates: the first leads for a while and gives up, the second takes over.
func leadersTakeOver(t *transcript, set kubernetes.Interface, namespace string, lead time.Duration) {
	var mutex sync.Mutex
	leaders := []string{}
	lost := 0
	candidate := func(ctx context.Context, name string) chan struct{} {
		broadcaster := record.NewBroadcaster()
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "election", set.CoreV1(), set.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: name, EventRecorder: broadcaster.NewRecorder(scheme(), corev1.EventSource{Component: "clients"})})
		if err != nil {
			panic(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true, Name: "election",
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) {},
					OnStoppedLeading: func() { mutex.Lock(); lost++; mutex.Unlock() },
					OnNewLeader: func(identity string) {
						mutex.Lock()
						leaders = append(leaders, name+" sees "+identity)
						mutex.Unlock()
					},
				},
			})
		}()
		return ended
	}
	saw := func(what string) {
		err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, line := range leaders {
				if line == what {
					return true, nil
				}
			}
			return false, nil
		})
		t.record("election/"+what, nil, err)
	}
	first, endFirst := context.WithCancel(context.Background())
	second, endSecond := context.WithCancel(context.Background())
	firstEnded := candidate(first, "first")
	saw("first sees first")
	secondEnded := candidate(second, "second")
	saw("second sees first")
	time.Sleep(lead)
	mutex.Lock()
	t.record("election/lost while leading", lost, nil)
	mutex.Unlock()
	lease, err := set.CoordinationV1().Leases(namespace).Get(context.Background(), "election", metav1.GetOptions{})
	t.record("election/held", map[string]any{"holder": lease.Spec.HolderIdentity, "transitions": lease.Spec.LeaseTransitions, "renewed": err == nil && lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time)}, err)
	endFirst()
	<-firstEnded
	saw("second sees second")
	lease, err = set.CoordinationV1().Leases(namespace).Get(context.Background(), "election", metav1.GetOptions{})
	t.record("election/taken over", map[string]any{"holder": lease.Spec.HolderIdentity, "transitions": lease.Spec.LeaseTransitions}, err)
	endSecond()
	<-secondEnded
	lease, err = set.CoordinationV1().Leases(namespace).Get(context.Background(), "election", metav1.GetOptions{})
	t.record("election/released", map[string]any{"holder": lease.Spec.HolderIdentity, "duration": lease.Spec.LeaseDurationSeconds}, err)
}

func scheme() *runtime.Scheme {
	made := runtime.NewScheme()
	if err := corev1.AddToScheme(made); err != nil {
		panic(err)
	}
	return made
}

// appliesWithConflicts is two appliers and an updater on one Deployment.
func appliesWithConflicts(t *transcript, set kubernetes.Interface, namespace string) {
	ctx := context.Background()
	deployments := set.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "applied"}
	wanted := func(image string) *applyapps.DeploymentApplyConfiguration {
		return applyapps.Deployment("applied", namespace).WithSpec(applyapps.DeploymentSpec().WithReplicas(0).
			WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().WithContainers(
				applycore.Container().WithName("main").WithImage(image).WithEnv(applycore.EnvVar().WithName("A").WithValue("1"))))))
	}
	options := func(name string, force bool) metav1.ApplyOptions {
		return metav1.ApplyOptions{FieldManager: manager + "-" + name, Force: force}
	}
	step := func(name string, live *appsv1.Deployment, err error) { t.record("apply/"+name, settled(live), err) }
	live, err := deployments.Apply(ctx, wanted("one"), options("a", false))
	step("created by a", live, err)
	live, err = deployments.Apply(ctx, wanted("one"), options("b", false))
	step("shared with b", live, err)
	live, err = deployments.Apply(ctx, wanted("two"), options("b", false))
	step("conflict of b", live, err)
	live, err = deployments.Apply(ctx, wanted("two"), options("b", true))
	step("forced by b", live, err)
	live, err = deployments.Apply(ctx, applyapps.Deployment("applied", namespace).WithAnnotations(map[string]string{"only": "a"}), options("a", false))
	step("a gives up its fields", live, err)
	live, err = deployments.Get(ctx, "applied", metav1.GetOptions{})
	if err == nil {
		extracted, err := applyapps.ExtractDeployment(live, manager+"-b")
		t.record("apply/extracted of b", extracted, err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := deployments.Get(ctx, "applied", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Spec.Template.Spec.Containers = append(current.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "side"})
		live, err = deployments.Update(ctx, current, metav1.UpdateOptions{FieldManager: manager + "-update"})
		return err
	})
	step("updated", live, err)
	side := wanted("two")
	side.Spec.Template.Spec.WithContainers(applycore.Container().WithName("side").WithImage("other"))
	live, err = deployments.Apply(ctx, side, options("b", false))
	step("conflict with an update", live, err)
	live, err = deployments.Apply(ctx, wanted("two").WithResourceVersion("1"), options("b", false))
	step("stale resource version", live, err)
	live, err = deployments.Apply(ctx, wanted("").WithResourceVersion(""), options("b", true))
	step("empty image", live, err)
	_, err = deployments.Apply(ctx, wanted("two"), metav1.ApplyOptions{})
	t.record("apply/no manager", nil, err)
	_, err = deployments.Patch(ctx, "applied", types.ApplyPatchType, []byte("{"), metav1.PatchOptions{FieldManager: manager + "-b"})
	t.record("apply/broken", nil, err)
	_, err = deployments.Patch(ctx, "applied", types.ApplyPatchType, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"applied","managedFields":[{"manager":"x"}]}}`), metav1.PatchOptions{FieldManager: manager + "-b"})
	t.record("apply/with managed fields", nil, err)
	scaled, err := deployments.ApplyScale(ctx, "applied", applyautoscaling.Scale().WithName("applied").WithNamespace(namespace).WithSpec(applyautoscaling.ScaleSpec().WithReplicas(0)), options("scale", true))
	t.record("apply/scale", scaled, err)
}

// pages lists in chunks, by metadata alone, and by a watch that waits.
func pages(t *transcript, configuration *rest.Config, set kubernetes.Interface, namespace string) {
	ctx := context.Background()
	for i := 0; i < 7; i++ {
		_, err := set.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%d", i), Labels: map[string]string{"paged": "yes"}}}, metav1.CreateOptions{})
		t.record(fmt.Sprintf("pages/create %d", i), nil, err)
	}
	found := []string{}
	remaining := []any{}
	next := metav1.ListOptions{Limit: 3, LabelSelector: "paged=yes"}
	for {
		list, err := set.CoreV1().Secrets(namespace).List(ctx, next)
		if err != nil {
			t.record("pages/list", nil, err)
			break
		}
		for _, secret := range list.Items {
			found = append(found, secret.Name)
		}
		remaining = append(remaining, list.RemainingItemCount)
		if next.Continue = list.Continue; next.Continue == "" {
			break
		}
	}
	t.record("pages/chunks", map[string]any{"names": found, "remaining": remaining}, nil)
	counted := 0
	err := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return set.CoreV1().Secrets(namespace).List(ctx, options)
	})).EachListItem(ctx, metav1.ListOptions{LabelSelector: "paged=yes", Limit: 2}, func(runtime.Object) error { counted++; return nil })
	t.record("pages/pager", counted, err)
	byMetadata, err := metadata.NewForConfig(configuration)
	if err != nil {
		panic(err)
	}
	partial, err := byMetadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "paged=yes", Limit: 2})
	t.record("pages/metadata", partial, err)
	untyped, err := dynamic.NewForConfig(configuration)
	if err != nil {
		panic(err)
	}
	resource := untyped.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace)
	created, err := resource.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "dynamic"},
		"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"d": "d"}}, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"d": "d"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}}}}}}, metav1.CreateOptions{FieldManager: manager})
	t.record("dynamic/create", created, err)
	until, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, err := watchtools.UntilWithSync(until, cache.NewListWatchFromClient(set.AppsV1().RESTClient(), "deployments", namespace, fields.Everything()), &appsv1.Deployment{}, nil, func(event watch.Event) (bool, error) {
		deployment, ok := event.Object.(*appsv1.Deployment)
		return ok && deployment.Name == "dynamic" && deployment.Status.AvailableReplicas == 1, nil
	})
	if err == nil {
		status := last.Object.(*appsv1.Deployment).Status
		sort.Slice(status.Conditions, func(i, j int) bool { return status.Conditions[i].Type < status.Conditions[j].Type })
		for i := range status.Conditions {
			// The names of replica sets differ by their number at most; their messages are compared elsewhere.
			status.Conditions[i].Message = ""
		}
		t.record("dynamic/available", status, nil)
	} else {
		t.record("dynamic/available", nil, err)
	}
	t.record("dynamic/delete", nil, resource.Delete(ctx, "dynamic", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		pods, err := set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "d=d"})
		_, missing := resource.Get(ctx, "dynamic", metav1.GetOptions{})
		return err == nil && len(pods.Items) == 0 && apierrors.IsNotFound(missing), nil
	})
	t.record("dynamic/collected", nil, err)
}

// discovers compares what is served, in the forms clients ask for.
func discovers(t *transcript, set kubernetes.Interface) {
	_, lists, err := set.Discovery().ServerGroupsAndResources()
	served := map[string]any{}
	for _, list := range lists {
		names := []string{}
		for _, resource := range list.APIResources {
			names = append(names, fmt.Sprintf("%s %s %v %v %v %v", resource.Name, resource.Kind, resource.Namespaced, resource.Verbs, resource.ShortNames, resource.Categories))
		}
		sort.Strings(names)
		served[list.GroupVersion] = names
	}
	versions := []string{}
	for version := range served {
		versions = append(versions, version)
	}
	sort.Strings(versions)
	t.record("discovery/versions", versions, err)
	for _, version := range versions {
		t.record("discovery/"+version, served[version], nil)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the server")
	kindsFile := flag.String("kinds", "", "objects of every kind")
	out := flag.String("transcript", "", "where the cases are written")
	lead := flag.Duration("lead", 15*time.Second, "how long the first leader leads")
	flag.Parse()
	file, err := os.Create(*out)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	text, err := os.ReadFile(*kindsFile)
	if err != nil {
		panic(err)
	}
	var kinds []sampleKind
	if err := json.Unmarshal(text, &kinds); err != nil {
		panic(err)
	}
	for _, encoding := range []string{"json", "protobuf"} {
		configuration, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			panic(err)
		}
		configuration.QPS, configuration.Burst, configuration.UserAgent = 500, 1000, manager
		t := &transcript{out: json.NewEncoder(file), encoding: encoding, runID: fmt.Sprintf("r%x%s", time.Now().UnixNano()&0xffffff, encoding[:1])}
		typed := *configuration
		if encoding == "protobuf" {
			typed.ContentType = runtime.ContentTypeProtobuf
			typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		}
		set := kubernetes.NewForConfigOrDie(&typed)
		clientsets := []any{set, apiextensions.NewForConfigOrDie(&typed), aggregator.NewForConfigOrDie(&typed)}
		namespace := "clients-" + t.runID
		_, err = set.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		t.record("namespace", nil, err)
		discovers(t, set)
		for _, kind := range kinds {
			kind.Namespace = namespace
			client, found := clientOf(clientsets, kind, namespace)
			if !found {
				t.record(kind.Key+"/typed client", false, nil)
				continue
			}
			everyVerb(t, client, kind)
		}
		pages(t, configuration, set, namespace)
		appliesWithConflicts(t, set, namespace)
		if encoding == "protobuf" {
			leadersTakeOver(t, set, namespace, *lead)
			informersSurviveARestart(t, set, namespace)
		}
		err = set.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
		t.record("delete namespace", nil, err)
	}
}
