import { render } from "preact";
import { App } from "./app";
import { onLink } from "./router";
import { connection, key, standing, watched, why } from "./state";
import "./theme";
import { Watch } from "./watch_page";

const place = document.getElementById("page");
if (place) {
  place.classList.toggle("watching", watched !== null);
  render(watched === null ? <App /> : <Watch id={watched} />, place);
}
document.addEventListener("click", onLink);
if (key) connection.open();
else {
  standing.value = "refused";
  why.value = "This copy of the page has no key.";
}
