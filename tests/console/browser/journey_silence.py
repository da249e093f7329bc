"""A replica is down, and somebody knows: the episode is silenced with a reason, and the silence is ended, by keyboard alone."""

from __future__ import annotations

from tests.console.browser.stage import Hand, Stage, open_browser


async def test_an_episode_is_silenced_and_told_again(stage: Stage) -> None:
    await stage.gateway.sql("UPDATE replica SET state = 'failed', last_error = 'out of memory' RETURNING id")
    async with open_browser("dark") as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        await hand.jump("Objectives & alerts")
        await hand.activate("Alerts")
        episodes = hand.page.get_by_role("table", name="Episodes")
        await episodes.get_by_text("Replica down").wait_for()
        await episodes.get_by_text("Firing").wait_for()
        await hand.activate("Silence")
        await hand.see("For whoever looks at it next.")
        await hand.to("Why")
        await hand.type("a new card is on its way")
        await hand.press("Enter")
        await hand.see("Silenced: nobody is told")
        silences = hand.page.get_by_role("table", name="Silences")
        await silences.get_by_text("a new card is on its way").wait_for()
        [silence] = (await stage.gateway.admin("GET", "/alert_silences?state=open"))["data"]
        [episode] = (await stage.gateway.admin("GET", "/alert_episodes?state=open"))["data"]
        assert (silence["source"], silence["scope"]) == (episode["source"], episode["scope"])
        await hand.activate("End")
        await silences.wait_for(state="detached")
        assert (await stage.gateway.admin("GET", "/alert_silences?state=open"))["data"] == []
