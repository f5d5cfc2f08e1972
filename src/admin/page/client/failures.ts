/** The banner of parents and upstreams that cannot be reached, and the list of recent failures. */

type StatusFailure = import('../../status-document.js').DocumentFailure
type StatusUpstream = import('../../status-document.js').DocumentUpstream

/** The least number of failures in the window for a banner, which needs half of all requests to fail as well. */
const MANY_FAILURES = 10

/** @returns a function that shows a status, and returns what is wrong in a word or two; undefined while nothing is */
function createFailures(): (status: Status) => string | undefined {
  let now = 0
  const troubles = new KeyedList<Trouble>(
    found('trouble'),
    ({ key }) => key,
    () => {
      const what = made('strong', '')
      const details = made('span', '')
      const update = (trouble: Trouble): void => {
        setBreakable(what, trouble.what)
        setBreakable(details, trouble.details)
      }
      return { element: made('li', '', what, ' ', details), update }
    },
  )
  const list = new KeyedList<StatusFailure>(found('failures'), keyOfFailure, () => {
    const target = made('span', 'target')
    const why = made('span', 'why')
    const who = made('span', 'who')
    const times = made('span', 'times')
    const words = made('p', 'words')
    const update = (failure: StatusFailure): void => {
      setBreakable(target, formatTarget(failure.host, failure.port))
      setBreakable(why, failure.reason)
      const through = failure.parent === null ? '' : `through ${failure.parent}, `
      setBreakable(
        who,
        `${through}last for ${formatClient(failure.client, failure.user, failure.client_address)}`,
      )
      const ago = formatAge((now - Date.parse(failure.last)) / 1000)
      setText(times, `${failure.count.toLocaleString('en')}×, ${ago} ago`)
      setBreakable(words, failure.detail)
    }
    return { element: made('li', '', made('div', 'line', target, why, who, times), words), update }
  })
  return status => {
    now = Date.parse(status.time)
    const { failures, upstreams, rates } = status
    const wrong = [...upstreamTroubles(upstreams, now), ...failureTroubles(failures)]
    troubles.show(wrong)
    found('trouble').hidden = wrong.length === 0
    setText(found('tile-failed'), formatNumber(rates.failed_per_second))
    found('tile-failed').dataset['bad'] = String(rates.failed_per_second > 0)
    // Sorted by the first failure of each kind, which never changes: a further failure moves no row.
    list.show([...failures.listed].sort((a, b) => Date.parse(b.first) - Date.parse(a.first)))
    found('failures-empty').hidden = failures.listed.length > 0
    setText(found('failures-note'), noteOf(failures))
    return wrong[0]?.state
  }
}

/** One line of the banner. */
interface Trouble {
  readonly key: string
  /** The state of the proxy, in a word or two. */
  readonly state: string
  readonly what: string
  readonly details: string
}

/** One for each route with a next hop that is down; routes without any that is up come first. */
function upstreamTroubles(upstreams: readonly StatusUpstream[], now: number): Trouble[] {
  const routes = [...new Set(upstreams.map(({ route }) => route))]
  return routes
    .flatMap(route => {
      const all = upstreams.filter(upstream => upstream.route === route)
      const down = all.filter(({ up }) => !up)
      const isParent = route === 'parent'
      const several = isParent ? 'parent proxies' : `upstreams of ${route}`
      const none = isParent ? 'No parent proxy can be reached' : `No upstream of ${route} can be reached`
      const isOut = down.length === all.length
      if (down.length === 0) return []
      const key = route
      const state = isParent ? 'parent down' : 'upstream down'
      const what = isOut ? `${none}.` : `${down.length} of ${all.length} ${several} cannot be reached.`
      return [
        { key, state, what, details: down.map(upstream => describeDown(upstream, now)).join(' '), isOut },
      ]
    })
    .sort((a, b) => Number(b.isOut) - Number(a.isOut))
}

function describeDown(upstream: StatusUpstream, now: number): string {
  const { upstream: url, error, down_since: since, last_tried: tried } = upstream
  const ageOf = (time: string | null): string => formatAge((now - Date.parse(time ?? '')) / 1000)
  return `${url}: ${error ?? 'unknown'}, for ${ageOf(since)}, last tried ${ageOf(tried)} ago.`
}

function failureTroubles({ failed, requests, window_seconds: seconds }: Status['failures']): Trouble[] {
  if (failed < MANY_FAILURES || failed * 2 < requests) return []
  const counts = `${failed.toLocaleString('en')} of ${Math.max(failed, requests).toLocaleString('en')}`
  const what = failed >= requests ? 'All requests fail.' : 'Most requests fail.'
  return [{ key: '', state: 'requests fail', what, details: `${counts} in the last ${seconds} s.` }]
}

function noteOf({ listed, dropped }: Status['failures']): string {
  if (listed.length === 0) return ''
  const kinds = listed.length === 1 ? '1 kind' : `${listed.length} kinds`
  return dropped === 0 ? kinds : `${kinds}, ${dropped.toLocaleString('en')} older ones left out`
}

function keyOfFailure({ kind, host, port, rule, reason, parent }: StatusFailure): string {
  return JSON.stringify([kind, host, port, rule, reason, parent])
}
