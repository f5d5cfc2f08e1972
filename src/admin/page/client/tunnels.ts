/** The tunnels that are open, each with a button that closes it. */

type StatusTunnel = import('../../status-document.js').DocumentTunnel

function createTunnels(): (tunnels: Status['tunnels']) => void {
  const body = found('tunnels').querySelector('tbody')
  if (body === null) throw new Error('no rows in tunnels')
  const list = new KeyedList<StatusTunnel>(body, ({ id }) => id, makeTunnelRow)
  const filter = found<HTMLInputElement>('tunnels-filter')
  let shown: Status['tunnels'] = { open: 0, listed: [] }
  const show = (): void => {
    const word = filter.value.trim().toLowerCase()
    const matching = shown.listed.filter(tunnel => textOf(tunnel).includes(word))
    list.show(matching)
    setFilled('tunnels', matching.length > 0)
    const { open } = shown
    setText(found('tunnels-empty'), open === 0 ? 'No tunnel is open.' : 'None of those listed matches.')
    const isAll = matching.length === open
    setText(found('tunnels-note'), isAll ? `${open}` : `${matching.length} of ${open.toLocaleString('en')}`)
  }
  found('tunnels').closest('.scroll')?.classList.add('filled')
  filter.addEventListener('input', show)
  return tunnels => {
    shown = tunnels
    show()
  }
}

function textOf({ host, port, client, user, client_address: address, rule }: StatusTunnel): string {
  return `${formatTarget(host, port)} ${client ?? ''} ${user ?? ''} ${address} ${rule ?? ''}`.toLowerCase()
}

function makeTunnelRow(tunnel: StatusTunnel): KeyedView<StatusTunnel> {
  const { row, cells } = textRow(['name', 'name', 'wide name', 'number', 'number wide', 'number', 'number'])
  const [target, client, rule, age, up, down, action] = cells
  const name = formatTarget(tunnel.host, tunnel.port)
  const button = made('button', 'danger', 'Close')
  button.type = 'button'
  button.setAttribute('aria-label', `Close the tunnel to ${name}`)
  button.addEventListener('click', () => void closeTunnel(tunnel.id, name, button))
  action?.append(button)
  const kind = tunnel.kind === 'upgrade' ? ', upgraded' : ''
  target?.append(name, made('small', '', `${tunnel.address}${kind}`))
  client?.append(formatIdentity(tunnel.client, tunnel.user), made('small', '', tunnel.client_address))
  rule?.append(tunnel.rule ?? '–')
  return {
    element: row,
    update: ({ age_seconds: seconds, bytes_up: bytesUp, bytes_down: bytesDown }) => {
      if (age !== undefined) setText(age, formatAge(seconds))
      if (up !== undefined) setText(up, formatBytes(bytesUp))
      if (down !== undefined) setText(down, formatBytes(bytesDown))
    },
  }
}

async function closeTunnel(id: string, name: string, button: HTMLButtonElement): Promise<void> {
  button.disabled = true
  const answer = await fetch(`/tunnels/${encodeURIComponent(id)}/close`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
  }).catch(() => undefined)
  if (answer?.ok === true || answer?.status === 404) {
    announce(`The tunnel to ${name} is closed`)
    // The button goes with its row; the list is where those are who use the keyboard.
    found('tunnels').closest<HTMLElement>('.scroll')?.focus({ preventScroll: true })
  } else {
    button.disabled = false
    announce(`The tunnel to ${name} could not be closed`)
  }
}
