/** Updates the page from one event stream, which is opened again whenever it is lost. */

/** Without an event for this long the proxy is taken for gone, even while the connection is open. */
const SILENCE_MS = 6000
const RETRY_MS = 2000

function start(): void {
  const history = new TrafficHistory()
  const charts = CHART_PLANS.map(plan => new TrafficChart(plan))
  const showFigures = createFigures()
  const showDenials = createDenials()
  const showFailures = createFailures()
  const showTunnels = createTunnels()
  const show = (status: Status): void => {
    history.add(status.traffic)
    if (!document.hidden) for (const chart of charts) chart.show(history)
    showFigures(status)
    showDenials(status.denials, Date.parse(status.time))
    showTunnels(status.tunnels)
    const trouble = showFailures(status)
    document.body.classList.toggle('read-only', status.listen.read_only)
    setState(...stateOf(status, trouble))
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    for (const chart of charts) chart.draw()
  })
  connect(show)
}

function connect(show: (status: Status) => void): void {
  const source = new EventSource('/events')
  let silence = 0
  const lost = (): void => {
    clearTimeout(silence)
    source.close()
    setState('lost', 'disconnected, retrying')
    setTimeout(() => connect(show), RETRY_MS)
  }
  const wait = (): void => {
    clearTimeout(silence)
    silence = setTimeout(lost, SILENCE_MS)
  }
  source.addEventListener('status', event => {
    wait()
    show(JSON.parse((event as MessageEvent<string>).data) as Status)
  })
  source.addEventListener('error', lost)
  wait()
}

type PageState = 'ready' | 'observe' | 'failing' | 'draining' | 'lost'

/** @param trouble what is wrong, in a word or two; undefined when nothing is */
function stateOf(
  { ready, config: { mode } }: Status,
  trouble: string | undefined,
): [state: PageState, text: string] {
  if (!ready) return ['draining', 'draining']
  if (trouble !== undefined) return ['failing', trouble]
  return mode === 'observe' ? ['observe', 'observe mode: nothing is enforced'] : ['ready', 'ready']
}

function setState(state: PageState, text: string): void {
  const element = found('state')
  if (element.dataset['state'] === state && element.textContent === text) return
  element.dataset['state'] = state
  setText(element, text)
  document.body.classList.toggle('stale', state === 'lost')
  document.title = state === 'ready' ? 'Sluice' : `Sluice: ${text}`
  announce(`Sluice: ${text}`)
}
