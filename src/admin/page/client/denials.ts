/** The recent refusals, each with its reason and the YAML that would allow the request. */

/** The least time between two announcements, so that many refusals do not drown all other announcements. */
const ANNOUNCE_MS = 10_000

type StatusDenial = import('../../status-document.js').DocumentDenial

function createDenials(): (denials: Status['denials'], now: number) => void {
  const element = found('denials')
  const held = new HeldOrder<StatusDenial>(keyOfDenial)
  let now = 0
  let uses: ReadonlyMap<string, number> = new Map()
  /** The number of other refusals that suggest the same YAML. */
  const others = (yaml: string | null): number => (yaml === null ? 0 : (uses.get(yaml) ?? 1) - 1)
  const list = new KeyedList<StatusDenial>(element, keyOfDenial, denial => {
    const target = made('span', 'target')
    const why = made('span', 'why')
    const who = made('span', 'who')
    const times = made('span', 'times')
    const remedy = made('div', 'remedy')
    const details = made('details', '', made('summary', '', target, why, who, times), remedy)
    const update = (item: StatusDenial): void => {
      setBreakable(target, formatTarget(item.host, item.port))
      setBreakable(why, whyOf(item))
      why.dataset['decision'] = item.decision
      setBreakable(who, `${item.method} from ${formatClient(item.client, item.user, item.client_address)}`)
      const ago = formatAge((now - Date.parse(item.last)) / 1000)
      setText(times, `${item.count.toLocaleString('en')}×, ${ago} ago`)
      times.title = `first ${formatTime(item.first)}, last ${formatTime(item.last)}`
      const text = JSON.stringify([
        item.detail,
        item.remedy.map(({ text, yaml }) => [text, yaml, others(yaml)]),
      ])
      if (remedy.dataset['of'] === text) return
      remedy.dataset['of'] = text
      remedy.replaceChildren(...remedyOf(item, others))
    }
    update(denial)
    return { element: made('li', '', details), update }
  })
  let latest: Status['denials'] = { dropped: 0, listed: [] }
  let known: ReadonlySet<string> = new Set()
  let announcedAt = 0
  const show = (): void => {
    // Sorted by the first refusal of each kind, which never changes: a further refusal moves no row.
    const ordered = [...latest.listed].sort((a, b) => compareDenials(a, b))
    const { shown, waiting } = held.next(ordered, isInUse(element))
    list.show(shown.map(({ item }) => item))
    found('denials-empty').hidden = shown.length > 0
    setText(found('denials-note'), denialsNote(latest, waiting))
  }
  onLeave(element, show)
  return (denials, time) => {
    now = time
    latest = denials
    uses = countUses(denials.listed)
    show()
    const fresh = denials.listed.find(denial => !known.has(keyOfDenial(denial)))
    if (fresh !== undefined && now > announcedAt + ANNOUNCE_MS) {
      announcedAt = now
      announce(`Refused: ${formatTarget(fresh.host, fresh.port)}, ${whyOf(fresh)}`)
    }
    known = new Set(denials.listed.map(keyOfDenial))
  }
}

/** The newest kind comes first. */
function compareDenials(a: StatusDenial, b: StatusDenial): number {
  if (a.first !== b.first) return a.first < b.first ? 1 : -1
  return keyOfDenial(a) < keyOfDenial(b) ? -1 : 1
}

function denialsNote({ listed, dropped }: Status['denials'], waiting: number): string {
  if (listed.length === 0) return ''
  const kinds = listed.length === 1 ? '1 kind' : `${listed.length} kinds`
  const older = dropped === 0 ? '' : `, ${dropped.toLocaleString('en')} older left out`
  const action =
    waiting === 0
      ? 'the newest first; open one to see what would allow it'
      : `${waiting} new, shown when you leave the list`
  return `${kinds}${older}; ${action}`
}

function keyOfDenial({
  client,
  user,
  kind,
  method,
  host,
  port,
  decision,
  reason,
  rule,
  remedy,
}: StatusDenial): string {
  return JSON.stringify([client, user, kind, method, host, port, decision, reason, rule, remedy])
}

function whyOf({ decision, reason, rule }: StatusDenial): string {
  const prefix = decision === 'would_deny' ? 'would be refused: ' : ''
  return `${prefix}${reason}${rule === null ? '' : ` (${rule})`}`
}

function countUses(denials: readonly StatusDenial[]): Map<string, number> {
  const uses = new Map<string, number>()
  for (const { yaml } of denials.flatMap(({ remedy }) => remedy)) {
    if (yaml !== null) uses.set(yaml, (uses.get(yaml) ?? 0) + 1)
  }
  return uses
}

function remedyOf({ detail, remedy }: StatusDenial, others: (yaml: string | null) => number): Node[] {
  const words = made('p', '', ...breakable(detail ?? 'No more is known about why.'))
  return [words, ...remedy.flatMap(({ text, yaml }) => stepOf(text, yaml, others(yaml)))]
}

function stepOf(text: string, yaml: string | null, others: number): Node[] {
  const words = made('p', 'step', ...prose(text))
  if (yaml === null) return [words]
  if (others > 0) {
    const who = others === 1 ? 'Another refusal suggests' : `${others} other refusals suggest`
    words.append(` (${who} the same: add it once.)`)
  }
  const button = made('button', '', 'Copy')
  button.type = 'button'
  button.setAttribute('aria-label', `Copy the YAML: ${text.replace(/`|:$/g, '')}`)
  button.addEventListener('click', () => void copy(yaml, button))
  return [words, made('div', 'code', made('pre', '', ...breakable(yaml.trimEnd())), button)]
}

async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const copied = await navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  )
  // A page that was loaded over the network without TLS has no clipboard; the text can be copied by hand.
  button.textContent = copied ? 'Copied' : 'Select it'
  announce(copied ? 'Copied' : 'It cannot be copied from here')
  if (!copied && button.previousElementSibling !== null) {
    getSelection()?.selectAllChildren(button.previousElementSibling)
  }
}
