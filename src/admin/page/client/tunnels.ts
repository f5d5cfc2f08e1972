/** The open tunnels, sorted by bytes or another column, each with a button that closes it. */

type StatusTunnel = import('../../status-document.js').DocumentTunnel

/** The number of rows shown at first, so that the sections below the table stay within reach. */
const FIRST_ROWS = 25

interface TunnelOrder {
  /** The `data-sort` of its column. */
  readonly column: string
  readonly isDescending: boolean
}

/** The sort keys of the columns. */
const TUNNEL_COLUMNS: Readonly<Record<string, (tunnel: StatusTunnel) => number | string>> = {
  target: ({ host, port }) => formatTarget(host, port),
  client: ({ client, user, client_address: address }) => `${formatIdentity(client, user)} ${address}`,
  rule: ({ rule }) => rule ?? '',
  age: ({ age_seconds: age }) => age,
  up: ({ bytes_up: up }) => up,
  down: ({ bytes_down: down }) => down,
  bytes: tunnel => bytesOf(tunnel),
}

function bytesOf({ bytes_up: up, bytes_down: down }: StatusTunnel): number {
  return up + down
}

function compareTunnels({ column, isDescending }: TunnelOrder): (a: StatusTunnel, b: StatusTunnel) => number {
  const read = TUNNEL_COLUMNS[column] ?? bytesOf
  const sign = isDescending ? -1 : 1
  return (a, b) => {
    const [left, right] = [read(a), read(b)]
    const order =
      typeof left === 'number' && typeof right === 'number'
        ? left - right
        : String(left).localeCompare(String(right), 'en', { numeric: true })
    return sign * order || b.age_seconds - a.age_seconds || (a.id < b.id ? -1 : 1)
  }
}

function createTunnels(): (tunnels: Status['tunnels']) => void {
  const table = found<HTMLTableElement>('tunnels')
  const body = table.querySelector('tbody')
  if (body === null) throw new Error('no rows in tunnels')
  const keyOf = ({ id }: StatusTunnel): string => id
  const held = new HeldOrder<StatusTunnel>(keyOf)
  const list = new KeyedList<HeldItem<StatusTunnel>>(body, ({ item }) => item.id, makeTunnelRow)
  const filter = found<HTMLInputElement>('tunnels-filter')
  const more = found<HTMLButtonElement>('tunnels-more')
  let tunnels: Status['tunnels'] = { open: 0, listed: [] }
  let order: TunnelOrder = { column: 'bytes', isDescending: true }
  let isWhole = false
  const show = (isHeld: boolean): void => {
    const word = filter.value.trim().toLowerCase()
    const matching = tunnels.listed
      .filter(tunnel => textOf(tunnel).includes(word))
      .sort(compareTunnels(order))
    const first = isWhole ? matching : matching.slice(0, FIRST_ROWS)
    const { shown } = held.next(first, isHeld)
    list.show(shown)
    setFilled('tunnels', shown.length > 0)
    const { open } = tunnels
    setText(
      found('tunnels-empty'),
      open === 0 ? 'No tunnel is open.' : 'No listed tunnel matches the filter.',
    )
    setText(found('tunnels-note'), tunnelsNote(tunnels, matching.length, isHeld && matching.length > 1))
    more.hidden = matching.length <= FIRST_ROWS
    setText(more, isWhole ? `Show the first ${FIRST_ROWS}` : `Show all ${matching.length}`)
  }
  const showFresh = (): void => show(false)
  for (const head of table.querySelectorAll<HTMLElement>('th[data-sort]')) {
    head.querySelector('button')?.addEventListener('click', () => {
      const { sort = '' } = head.dataset
      const startsLarge = head.classList.contains('number')
      order = { column: sort, isDescending: order.column === sort ? !order.isDescending : startsLarge }
      showOrder(table, order)
      showFresh()
    })
  }
  showOrder(table, order)
  filter.addEventListener('input', showFresh)
  more.addEventListener('click', () => {
    isWhole = !isWhole
    showFresh()
  })
  onLeave(body, () => show(isInUse(body)))
  return latest => {
    tunnels = latest
    show(isInUse(body))
  }
}

function showOrder(table: HTMLElement, { column, isDescending }: TunnelOrder): void {
  for (const head of table.querySelectorAll<HTMLElement>('th[data-sort]')) {
    if (head.dataset['sort'] !== column) head.removeAttribute('aria-sort')
    else head.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending')
  }
}

function tunnelsNote({ open, listed }: Status['tunnels'], matching: number, isHeld: boolean): string {
  const total = open.toLocaleString('en')
  const left = open > listed.length ? `, the ${listed.length} with the most bytes listed` : ''
  const count = matching === open ? total : `${matching} of ${total}${left}`
  return isHeld ? `${count}; the order holds still while you are in the table` : count
}

function textOf({ host, port, client, user, client_address: address, rule }: StatusTunnel): string {
  return `${formatTarget(host, port)} ${client ?? ''} ${user ?? ''} ${address} ${rule ?? ''}`.toLowerCase()
}

function makeTunnelRow({ item: tunnel }: HeldItem<StatusTunnel>): KeyedView<HeldItem<StatusTunnel>> {
  const { row, cells } = textRow([
    'name target',
    'name client',
    'name rule',
    'number age',
    'number up-bytes',
    'number down-bytes',
    'number bytes',
    'action',
  ])
  const [target, client, rule, age, up, down, bytes, action] = cells
  const name = formatTarget(tunnel.host, tunnel.port)
  const button = made('button', 'danger', 'Close')
  button.type = 'button'
  button.setAttribute('aria-label', `Close the tunnel to ${name}`)
  let latest = tunnel
  button.addEventListener('click', () => void askAndClose(latest, row))
  action?.append(button)
  const kind = tunnel.kind === 'upgrade' ? ', upgraded' : ''
  target?.append(...breakable(name), made('small', '', ...breakable(`${tunnel.address}${kind}`)))
  client?.append(
    ...breakable(formatIdentity(tunnel.client, tunnel.user)),
    made('small', '', ...breakable(tunnel.client_address)),
  )
  rule?.append(...breakable(tunnel.rule ?? '–'))
  return {
    element: row,
    update: ({ item, isGone }) => {
      latest = item
      if (age !== undefined) setText(age, isGone ? 'ended' : formatAge(item.age_seconds))
      if (up !== undefined) setText(up, formatBytes(item.bytes_up))
      if (down !== undefined) setText(down, formatBytes(item.bytes_down))
      if (bytes !== undefined) setText(bytes, formatBytes(bytesOf(item)))
      row.classList.toggle('gone', isGone)
      button.disabled = isGone || row.dataset['closing'] === 'true'
    },
  }
}

/** @param row its `data-closing` disables the button while the request is in progress */
async function askAndClose(tunnel: StatusTunnel, row: HTMLElement): Promise<void> {
  const name = formatTarget(tunnel.host, tunnel.port)
  const who = formatClient(tunnel.client, tunnel.user, tunnel.client_address)
  const much = `${formatBytes(bytesOf(tunnel))} in ${formatAge(tunnel.age_seconds)}`
  if (!(await ask(`${name} for ${who}: ${much}. The client sees its connection end.`))) return
  row.dataset['closing'] = 'true'
  const answer = await fetch(`/tunnels/${encodeURIComponent(tunnel.id)}/close`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
  }).catch(() => undefined)
  if (answer?.ok === true || answer?.status === 404) {
    announce(`The tunnel to ${name} is closed`)
    // The button disappears with its row, so the focus moves to the heading of the section.
    found('tunnels-title').focus({ preventScroll: true })
  } else {
    delete row.dataset['closing']
    announce(`The tunnel to ${name} could not be closed`)
  }
}
