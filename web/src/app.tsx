import { useEffect } from "preact/hooks";
import { path } from "./router";
import { approvals, me, now, connectionState, refusedReason } from "./state";
import { nextTheme, theme } from "./theme";
import { Icon, type IconName } from "./ui/icons";
import { EmptyState } from "./ui/parts";
import { ApprovalsView } from "./views/approvals";
import { DemoView } from "./views/demo";
import { PeopleView } from "./views/people";
import { SessionView } from "./views/session";
import { SessionsView } from "./views/sessions";
import { HealthView } from "./views/health";
import { WindowView } from "./views/window";
import { WindowsView } from "./views/windows";

const NAVIGATION: { path: string; label: string; icon: IconName }[] = [
  { path: "/sessions", label: "Sessions", icon: "sessions" },
  { path: "/windows", label: "Windows", icon: "windows" },
  { path: "/approvals", label: "Approvals", icon: "approvals" },
  { path: "/people", label: "People", icon: "people" },
  { path: "/status", label: "Health", icon: "status" },
];
/** Paths of views that show only what admins may see. */
const ADMIN_PATHS = ["/people"];

/** Updates the clock for displayed ages while the page is visible. */
function useClock(): void {
  useEffect(() => {
    const clock = setInterval(() => {
      if (!document.hidden) now.value = Date.now();
    }, 1000);
    return () => clearInterval(clock);
  }, []);
}

export function App() {
  useClock();
  useEffect(() => {
    const count = approvals.value.length;
    document.title = `${count ? `(${count}) ` : ""}Bascule`;
  }, [approvals.value]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Side />
      <main id="main" tabIndex={-1}>
        <Banner />
        {connectionState.value === "refused" ? <SignInAgain /> : <CurrentView />}
      </main>
    </>
  );
}

function Side() {
  const here = path.value === "/" ? "/sessions" : path.value;
  return (
    <nav class="side" aria-label="Main">
      <a class="brand" href="/" data-inside>
        <img src={new URL("./icon.svg", import.meta.url).href} alt="" width="24" height="24" />
        <span>Bascule</span>
      </a>
      <ul>
        {NAVIGATION.filter(isOffered).map((place) => (
          <li key={place.path}>
            <a
              href={place.path}
              data-inside
              aria-current={here.startsWith(place.path) ? "page" : undefined}
            >
              <Icon name={place.icon} />
              <span>{place.label}</span>
              {place.path === "/approvals" && approvals.value.length > 0 && (
                <b class="count">{approvals.value.length}</b>
              )}
            </a>
          </li>
        ))}
      </ul>
      <div class="side-end">
        {me.value && (
          <p class="who" title={`Bascule ${me.value.version}`}>
            Signed in as <b>{me.value.name}</b>
          </p>
        )}
        <button
          type="button"
          class="quiet"
          onClick={nextTheme}
          aria-label={`Colour theme: ${theme.value}. Change`}
          title={`Colour theme: ${theme.value}`}
        >
          <Icon name={theme.value === "dark" ? "moon" : theme.value === "light" ? "sun" : "auto"} />
        </button>
        <form method="post" action="/sign-out">
          <button class="quiet" aria-label="Sign out" title="Sign out">
            <Icon name="leave" />
          </button>
        </form>
      </div>
    </nav>
  );
}

function isOffered(place: { path: string }): boolean {
  return me.value?.scope === "admin" || !ADMIN_PATHS.includes(place.path);
}

export function Banner() {
  if (connectionState.value !== "lost") return null;
  return (
    <p class="banner" role="status">
      The hub does not answer. This page shows the last known state and reconnects automatically.
    </p>
  );
}

export function SignInAgain() {
  const back = `/sign-in?next=${encodeURIComponent(path.value)}`;
  return (
    <EmptyState icon="leave" title="Sign in again">
      <p>{refusedReason.value}</p>
      <p>
        <a class="button primary" href={back}>
          Sign in
        </a>
      </p>
    </EmptyState>
  );
}

function CurrentView() {
  if (!me.value) return <p class="loading">Connecting…</p>;
  const [, where, id] = path.value.split("/").map(decodeURIComponent);
  switch (where) {
    case "":
    case "sessions":
      if (id === "new") return <SessionsView isCreating />;
      return id ? <SessionView key={id} id={id} /> : <SessionsView />;
    case "windows":
      return id ? <WindowView key={id} id={id} /> : <WindowsView />;
    case "approvals":
      return <ApprovalsView />;
    case "people":
      return <PeopleView />;
    case "demo":
      return <DemoView />;
    case "status":
      return <HealthView />;
    default:
      return <EmptyState icon="search" title="Page not found" />;
  }
}
