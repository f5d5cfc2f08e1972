/** What docker/kubernetes.yaml and kubernetes-clients.yaml say of each other, of the image and of the program. */
import type { IDeployment } from 'kubernetes-models/apps/v1'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2'
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1'
import type { IConfigMap, IService } from 'kubernetes-models/v1'
import t from 'tap'
import { parse } from 'yaml'
import { parseDuration } from '../../src/config/quantities.js'
import { parseListenAddress } from '../../src/config/listen-address.js'
import { parseConfig } from '../../src/config/load.js'
import { faultsOf, type Manifest, manifestOf, parseManifests, readProjectFile } from './manifest.js'
import { readReadme } from '../kit/readmes.js'

const text = readProjectFile('docker/kubernetes.yaml')
const clientsText = readProjectFile('docker/kubernetes-clients.yaml')
const manifests = parseManifests(text)
const clients = manifestOf<Manifest & INetworkPolicy>(parseManifests(clientsText), 'NetworkPolicy')
const configMap = manifestOf<Manifest & IConfigMap>(manifests, 'ConfigMap')
const deployment = manifestOf<Manifest & IDeployment>(manifests, 'Deployment')
const service = manifestOf<Manifest & IService>(manifests, 'Service')
const budget = manifestOf<Manifest & IPodDisruptionBudget>(manifests, 'PodDisruptionBudget')
const scaler = manifestOf<Manifest & IHorizontalPodAutoscaler>(manifests, 'HorizontalPodAutoscaler')
const network = manifestOf<Manifest & INetworkPolicy>(manifests, 'NetworkPolicy')

const pod = deployment.spec?.template
const container = pod?.spec?.containers[0]
const ports = new Map(container?.ports?.map(port => [port.name, port.containerPort]))
const sluiceYaml = configMap.data?.['sluice.yaml'] ?? ''
const dockerfile = readProjectFile('docker/Dockerfile')
const command = JSON.parse(/^CMD (\[.*\])$/m.exec(dockerfile)?.[1] ?? '[]') as string[]
const optionOf = (name: string) => command[command.indexOf(name) + 1] ?? ''

t.test('the Kubernetes API accepts every document', async t => {
  t.equal(manifests.length, 6)
  for (const manifest of [...manifests, clients]) {
    t.same(await faultsOf(manifest), [], `${manifest.kind} ${manifest.metadata.name}`)
    t.notOk('namespace' in manifest.metadata, 'the command line names the namespace')
  }
})

t.test('the Kubernetes API also accepts the DNS access that is commented out', async t => {
  const [before = '', after = ''] = clientsText.split('    # Cluster DNS, if you need it:\n')
  const open = manifestOf<Manifest & INetworkPolicy>(
    parseManifests(before + after.replaceAll(/^ {4}# /gm, '    ')),
    'NetworkPolicy',
  )
  t.same(await faultsOf(open), [])
  t.same(open.spec?.egress?.[1], network.spec?.egress?.[0])
})

t.test('every selector finds the pods', async t => {
  const labels = pod?.metadata?.labels
  t.same(labels, { 'app.kubernetes.io/name': 'sluice' })
  t.same(deployment.spec?.selector.matchLabels, labels)
  t.same(service.spec?.selector, labels)
  t.same(budget.spec?.selector?.matchLabels, labels)
  t.same(network.spec?.podSelector?.matchLabels, labels)
  t.same(clients.spec?.egress?.[0]?.to?.[0]?.podSelector?.matchLabels, labels)
  for (const spread of pod?.spec?.topologySpreadConstraints ?? []) {
    t.same(spread.labelSelector?.matchLabels, labels, spread.topologyKey)
  }
})

t.test('the autoscaler keeps at least two replicas, and the Deployment sets none itself', async t => {
  const { apiVersion, kind, metadata } = deployment
  t.same(scaler.spec?.scaleTargetRef, { apiVersion, kind, name: metadata.name })
  t.ok((scaler.spec?.minReplicas ?? 0) >= 2)
  t.notOk('replicas' in (deployment.spec ?? {}))
  t.equal(budget.spec?.maxUnavailable, 1)
  t.same(deployment.spec?.strategy?.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 }, 'new ones come first')
})

t.test("its configuration is valid, and is where the image's command expects it", async t => {
  const { warnings } = parseConfig(sluiceYaml)
  t.same(warnings, [])
  const [mount] = container?.volumeMounts ?? []
  const [volume] = pod?.spec?.volumes ?? []
  t.equal(`${mount?.mountPath}/sluice.yaml`, optionOf('--config'))
  t.notOk('subPath' in (mount ?? {}), 'a subPath would never change')
  t.equal(mount?.name, volume?.name)
  t.equal(volume?.configMap?.name, configMap.metadata.name)
  t.notOk(container?.command ?? container?.args, 'the command is the one of the image')
})

t.test('ports are those that Sluice listens on, and every named port exists', async t => {
  const { admin } = parseConfig(sluiceYaml).config.listen
  t.same(parseListenAddress(optionOf('--listen')), { host: '0.0.0.0', port: ports.get('proxy') })
  t.same(admin, { host: '0.0.0.0', port: ports.get('admin') })
  t.equal(container?.livenessProbe?.httpGet?.port, 'admin')
  t.equal(container?.livenessProbe?.httpGet?.path, '/health')
  t.equal(container?.readinessProbe?.httpGet?.port, 'admin')
  t.equal(container?.readinessProbe?.httpGet?.path, '/ready')
  t.match(service.spec?.ports, [{ port: ports.get('proxy'), targetPort: 'proxy' }])
  t.equal(pod?.metadata?.annotations?.['prometheus.io/port'], String(ports.get('admin')))
  const named = network.spec?.ingress?.flatMap(rule => rule.ports?.map(({ port }) => port))
  t.same(named, ['proxy', 'admin'])
  t.equal(clients.spec?.egress?.[0]?.ports?.[0]?.port, ports.get('proxy'))
})

t.test('a pod has the time to drain before it is killed', async t => {
  const { drainMs } = parseConfig(sluiceYaml).config.shutdown
  const delayMs = parseDuration(/^ *delay: (\S+)$/m.exec(sluiceYaml)?.[1] ?? '')
  const graceMs = (pod?.spec?.terminationGracePeriodSeconds ?? 0) * 1000
  t.ok(graceMs > delayMs + drainMs, `${graceMs} > ${delayMs} + ${drainMs}`)
})

t.test('the image has this version, and runs as its own user', async t => {
  const { version } = JSON.parse(readProjectFile('package.json')) as { version: string }
  t.equal(container?.image, `sluice:${version}`)
  const [, user, group] = /^USER (\d+):(\d+)$/m.exec(dockerfile) ?? []
  t.equal(String(pod?.spec?.securityContext?.runAsUser), user)
  t.equal(String(pod?.spec?.securityContext?.runAsGroup), group)
})

t.test('the pod meets the restricted Pod Security Standard, and more', async t => {
  t.match(pod?.spec, {
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  })
  t.same(container?.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  })
  for (const key of ['hostNetwork', 'hostPID', 'hostIPC', 'hostUsers']) t.notOk(key in (pod?.spec ?? {}), key)
  t.equal(pod?.spec?.containers.length, 1)
  t.ok(container?.resources?.requests?.['cpu'])
  t.ok(container?.resources?.limits?.['memory'])
})

t.test('the environment of clients in the README points to the Service', async t => {
  const block = /^env:\n(?: {2}- .*\n)+/m.exec(readReadme('docker/README.md'))?.[0] ?? ''
  const { env } = parse(block) as { env: { name: string; value: string }[] }
  const values = new Map(env.map(({ name, value }) => [name, value]))
  const [port] = service.spec?.ports ?? []
  t.equal(new URL(values.get('HTTPS_PROXY') ?? '').port, String(port?.port))
  for (const name of ['HTTP_PROXY', 'https_proxy', 'http_proxy']) t.equal(values.get(name), '$(HTTPS_PROXY)')
  t.equal(values.get('no_proxy'), '$(NO_PROXY)')
  t.same(await faultsOf(withEnvironment(env)), [])
})

/** The Deployment, with these variables in its container. */
function withEnvironment(env: object[]): Manifest {
  const copy = structuredClone(deployment)
  Object.assign(copy.spec?.template?.spec?.containers[0] ?? {}, { env })
  return copy
}
