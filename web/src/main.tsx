import { render } from "preact";
import { App } from "./app";
import { onLink } from "./router";
import { connection, key, standing, why } from "./state";
import "./theme";

const place = document.getElementById("page");
if (place) render(<App />, place);
document.addEventListener("click", onLink);
if (key) connection.open();
else {
  standing.value = "refused";
  why.value = "This copy of the page has no key.";
}
