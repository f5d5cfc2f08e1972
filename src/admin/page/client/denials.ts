/** What was refused lately, each with what refused it and the YAML that would allow it. */

/** Milliseconds between two announcements, so that a flood of refusals does not drown everything else. */
const ANNOUNCE_MS = 10_000

type StatusDenial = import('../../status-document.js').DocumentDenial

function createDenials(): (denials: Status['denials'], now: number) => void {
  let now = 0
  const list = new KeyedList<StatusDenial>(found('denials'), keyOfDenial, denial => {
    const target = made('span', 'target')
    const why = made('span', 'why')
    const who = made('span', 'who')
    const times = made('span', 'times')
    const remedy = made('div', 'remedy')
    const details = made('details', '', made('summary', '', target, why, who, times), remedy)
    const update = (item: StatusDenial): void => {
      setText(target, formatTarget(item.host, item.port))
      setText(why, whyOf(item))
      why.dataset['decision'] = item.decision
      setText(who, `${item.method} from ${formatClient(item.client, item.user, item.client_address)}`)
      const ago = formatAge((now - Date.parse(item.last)) / 1000)
      setText(times, `${item.count.toLocaleString('en')}×, ${ago} ago`)
      const text = JSON.stringify([item.detail, item.yaml])
      if (remedy.dataset['of'] === text) return
      remedy.dataset['of'] = text
      remedy.replaceChildren(...remedyOf(item))
    }
    update(denial)
    return { element: made('li', '', details), update }
  })
  let known = new Map<string, number>()
  let announcedAt = 0
  return (denials, time) => {
    now = time
    // What somebody is about to click on, or reads, stays where it is; what is new comes first.
    const isInUse = found('denials').matches(':hover, :focus-within')
    const placeOf = (denial: StatusDenial): number => known.get(keyOfDenial(denial)) ?? -1
    const listed = isInUse ? [...denials.listed].sort((a, b) => placeOf(a) - placeOf(b)) : denials.listed
    list.show(listed)
    found('denials-empty').hidden = denials.listed.length > 0
    const dropped =
      denials.dropped === 0 ? '' : `, ${denials.dropped.toLocaleString('en')} older kinds left out`
    const kinds = listed.length === 1 ? '1 kind' : `${listed.length} kinds`
    const note = `${kinds}${dropped}; open one for what allows it`
    setText(found('denials-note'), listed.length === 0 ? '' : note)
    const fresh = listed.find(denial => !known.has(keyOfDenial(denial)))
    if (fresh !== undefined && now > announcedAt + ANNOUNCE_MS) {
      announcedAt = now
      announce(`Refused: ${formatTarget(fresh.host, fresh.port)}, ${whyOf(fresh)}`)
    }
    known = new Map(listed.map((denial, i) => [keyOfDenial(denial), i]))
  }
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
  yaml,
}: StatusDenial): string {
  return JSON.stringify([client, user, kind, method, host, port, decision, reason, rule, yaml])
}

function whyOf({ decision, reason, rule }: StatusDenial): string {
  const prefix = decision === 'would_deny' ? 'would be refused: ' : ''
  return `${prefix}${reason}${rule === null ? '' : ` (${rule})`}`
}

function remedyOf({ detail, yaml }: StatusDenial): Node[] {
  const words = made('p', '', detail ?? 'No more is known about why.')
  if (yaml === null) return [words]
  const button = made('button', '', 'Copy')
  button.type = 'button'
  button.setAttribute('aria-label', 'Copy the YAML that would allow it')
  button.addEventListener('click', () => void copy(yaml, button))
  const code = made('pre', '', yaml.trimEnd())
  code.tabIndex = 0
  return [words, made('div', 'code', code, button)]
}

async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const copied = await navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  )
  // Only pages that are not from elsewhere on the network may use the clipboard; the text can be copied by hand.
  button.textContent = copied ? 'Copied' : 'Select it'
  announce(copied ? 'Copied' : 'It can not be copied from here')
  if (!copied && button.previousElementSibling !== null) {
    getSelection()?.selectAllChildren(button.previousElementSibling)
  }
}
